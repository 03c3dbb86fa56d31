use std::{
    io,
    path::{Path, PathBuf},
};

use super::{DISKSTATS, DeviceNumber, MalformedLine};

/// Why there are no statistics for a path, and how to resolve it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// stat(2) found no such file.
    #[error("{path}: no such file or directory; create it, or name one that exists", path = .path.display())]
    NoSuchPath {
        /// The requested path.
        path: PathBuf,
    },

    /// stat(2) failed for another reason.
    #[error("{path}: {source}; name a path that this user may reach", path = .path.display())]
    UnreadablePath {
        /// The requested path.
        path: PathBuf,
        /// The error of stat(2).
        source: io::Error,
    },

    /// The filesystem is not on exactly one block device.
    #[error(
        "{path}: its filesystem (device {device}) has no block device of its own, as is so with \
         tmpfs, overlayfs, NFS and btrfs; use a directory on a disk with ext4 or XFS",
        path = .path.display()
    )]
    NoBlockDevice {
        /// The requested path.
        path: PathBuf,
        /// The anonymous number of its filesystem.
        device: DeviceNumber,
    },

    /// The device exists but is not in the kernel's list.
    #[error(
        "{path}: its block device {device} is not in {DISKSTATS}; a container may hide its \
         host's disks: run on the host, or use a directory on a device that is listed",
        path = .path.display()
    )]
    NotListed {
        /// The requested path.
        path: PathBuf,
        /// The device that was searched for.
        device: DeviceNumber,
    },

    /// The kernel's list could not be read.
    #[error("{DISKSTATS}: {0}; mount procfs on /proc and let this user read it")]
    UnreadableStatistics(#[source] io::Error),

    /// The kernel's list was read but not understood.
    #[error("{DISKSTATS}: {0}; Octavo reads the format of Linux 2.6.25 and later")]
    Malformed(#[from] MalformedLine),
}

impl Error {
    /// The error for a path on which stat(2) failed.
    pub(super) fn path(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoSuchPath { path },
            _ => Self::UnreadablePath { path, source },
        }
    }
}
