use std::io;

/// Why a file could not be examined. Each message is one line that follows the file's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It could not be read or unpacked.
    #[error("{}", reading(.0))]
    Io(#[from] io::Error),
    /// Neither an ELF file nor a supported archive.
    #[error("is not an ELF file, a package (.deb) or an archive of objects (.a)")]
    Unknown,
    /// It has no bytes.
    #[error("is empty")]
    Empty,
    /// The file ends before a part that its header names.
    #[error("is a truncated or damaged ELF file: {0} lies outside of the file")]
    Truncated(&'static str),
    /// A field of it is impossible.
    #[error("is a damaged ELF file: {0}")]
    Malformed(&'static str),
    /// It exceeds the limit of bytes that are read into memory.
    #[error("is larger than {} MB, the most that is read; use a stripped copy", super::MOST_BYTES >> 20)]
    TooLarge,
    /// A package or archive that cannot be read to its end.
    #[error("is a damaged package or archive: {0}")]
    Archive(&'static str),
    /// The package uses an unsupported compression.
    #[error("has {0}, which is not supported; unpack it and name the directory")]
    Packed(String),
    /// The caller ended it.
    #[error("was not read completely")]
    Ended,
}

/// The error of a file that ends too early has no errno, and a message about buffers.
fn reading(error: &io::Error) -> String {
    match (error.raw_os_error(), error.kind()) {
        (None, io::ErrorKind::UnexpectedEof) => "is a truncated package or archive".into(),
        (None, io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => {
            format!("is a damaged package or archive: {error}")
        }
        _ => error.to_string(),
    }
}
