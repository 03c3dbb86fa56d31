use std::{
    io,
    path::{Path, PathBuf},
};

use super::{DISKSTATS, DeviceNumber, MalformedLine};

/// Why there are no statistics for a path, and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// stat(2) found nothing there.
    #[error("{path}: no such file or directory; create it, or name one that exists", path = .path.display())]
    NoSuchPath {
        /// The path as it was asked for.
        path: PathBuf,
    },

    /// stat(2) failed for another reason.
    #[error("{path}: {source}; name a path that this user may reach", path = .path.display())]
    UnreadablePath {
        /// The path as it was asked for.
        path: PathBuf,
        /// What stat(2) said.
        source: io::Error,
    },

    /// The filesystem is not on exactly one block device.
    #[error(
        "{path}: its filesystem (device {device}) has no block device of its own, as is so with \
         tmpfs, overlayfs, NFS and btrfs; use a directory on a disk with ext4 or XFS",
        path = .path.display()
    )]
    NoBlockDevice {
        /// The path as it was asked for.
        path: PathBuf,
        /// The anonymous number of its filesystem.
        device: DeviceNumber,
    },

    /// The device exists but the kernel's list does not show it.
    #[error(
        "{path}: its block device {device} is not in {DISKSTATS}; a container may hide its \
         host's disks: run on the host, or use a directory on a device that is listed",
        path = .path.display()
    )]
    NotListed {
        /// The path as it was asked for.
        path: PathBuf,
        /// The device that was looked for.
        device: DeviceNumber,
    },

    /// The kernel's list could not be read.
    #[error("{DISKSTATS}: {0}; mount procfs on /proc and let this user read it")]
    UnreadableStatistics(#[source] io::Error),

    /// The kernel's list was read and not understood.
    #[error("{DISKSTATS}: {0}; Octavo reads the format of Linux 2.6.25 and later")]
    Malformed(#[from] MalformedLine),
}

impl Error {
    /// The error for a path that stat(2) refused.
    pub(super) fn path(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoSuchPath { path },
            _ => Self::UnreadablePath { path, source },
        }
    }
}
