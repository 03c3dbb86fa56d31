use std::io;

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file or pipe could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No part of it is a trace.
    #[error("not an Octavo trace: it has no complete frame")]
    NoTrace,
    /// A later version of the format.
    #[error("unsupported trace format version {0}: this Octavo reads versions up to {VERSION}; use a newer one",
        VERSION = super::VERSION)]
    Version(u8),
    /// Frames of two page sizes in one file.
    #[error("the trace mixes pages of {0} and {1} bytes")]
    TwoPageSizes(u32, u32),
    /// A page size that is no power of two from 512 bytes to 1 MB.
    #[error("invalid page size {0}: it must be a power of two from 512 to 1048576")]
    PageSize(u64),
    /// The contents of a frame contradict each other although its checksum is right.
    #[error("corrupted frame in the trace: {0}")]
    Malformed(&'static str),
    /// More relations, settings and intervals of WAL than a summary keeps: their number, and the MB of their text.
    #[error(
        "the trace describes more than {0} relations, settings and stretches of WAL, or with more than {1} MB of \
        text: no server has so many"
    )]
    TooManyFacts(usize, usize),
    /// Invalid text of a trace of another program.
    #[error("line {line}: {what}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}
