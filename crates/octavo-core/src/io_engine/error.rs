use std::{io, path::PathBuf};

/// Why something was not measured, and how to resolve it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request contradicts itself or the files.
    #[error("{0}")]
    Parameter(String),

    /// There is nothing at this path, or it is neither a file nor a block device.
    #[error("{path}: {reason}", path = .path.display())]
    NoFile {
        /// The requested path.
        path: PathBuf,
        /// What is wrong with it, and what to name instead.
        reason: String,
    },

    /// The operating system refused something.
    #[error("{path}: {action}: {cause}; {way_out}", path = .path.display(), cause = cause(.source))]
    Refused {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        action: String,
        /// The system's error.
        source: io::Error,
        /// What the user can do.
        way_out: &'static str,
    },

    /// The file ended before a block that it had when it was opened.
    #[error(
        "{path}: the file was truncated from {length} to {end} bytes while it was read; measure a file that does not \
         change",
        path = .path.display()
    )]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// Its end now.
        end: u64,
        /// Its end when it was opened.
        length: u64,
    },

    /// A block differs from what was written there.
    #[error(
        "{path}: at byte {offset} is not what octavo io wrote there: {found}; \
         if octavo io made the file, its storage has lost or corrupted data",
        path = .path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The first sector that differs.
        offset: u64,
        /// What is there instead.
        found: String,
    },

    /// The kernel does not offer io_uring to this process.
    #[error(
        "io_uring: {cause}; it needs Linux 5.6, and kernel.io_uring_disabled or the seccomp filter of a container may forbid \
         it; choose another policy, or run where it is allowed",
        cause = cause(.0)
    )]
    NoIoUring(#[source] io::Error),
}

/// The category of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The user can change the request.
    Usage,
    /// This host cannot do it.
    Host,
    /// This kernel does not offer it.
    Unsupported,
    /// The check found a problem.
    Corrupt,
}

impl Error {
    /// The category of this error.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Parameter(_) | Self::NoFile { .. } => Kind::Usage,
            Self::Refused { .. } | Self::Shrunk { .. } => Kind::Host,
            Self::NoIoUring(_) => Kind::Unsupported,
            Self::Corrupt { .. } => Kind::Corrupt,
        }
    }
}

/// The system's message, without the number that [`io::Error`] appends.
fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}
