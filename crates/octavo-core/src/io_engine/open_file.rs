//! A file or block device that is read or written.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek as _, SeekFrom},
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

use super::{Error, make::has_stamps};
use crate::block_device::DeviceNumber;

/// One open file or block device.
#[derive(Debug)]
pub struct OpenFile {
    /// Its path.
    pub path: PathBuf,
    /// Open for the job's access.
    pub file: File,
    /// Its length in bytes when it was opened.
    pub length: u64,
    /// The device that contains its data; for a block device the device itself. None if the filesystem names none.
    pub device: Option<DeviceNumber>,
}

/// How files are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Also for writing.
    pub write: bool,
    /// With `O_DIRECT`, bypassing the page cache.
    pub direct: bool,
    /// Each write is on the device before it ends (`O_DSYNC`).
    pub durable: bool,
    /// Contents of a block device may be lost.
    pub lose_device: bool,
}

/// Access for a file that is only inspected.
pub(super) const LOOK: Access = Access {
    write: false,
    direct: false,
    durable: false,
    lose_device: false,
};

impl OpenFile {
    /// Opens a regular file or a block device, and nothing else. For writing only a file that [`make`](super::make) has
    /// made, or a device whose contents may be lost. The path is resolved once: the same file is inspected and then
    /// opened.
    ///
    /// # Errors
    ///
    /// [`Error::NoFile`], or [`Error::Refused`] for an error of the system.
    pub fn open(path: &Path, access: Access) -> Result<Self, Error> {
        let refused = |source: io::Error| {
            if source.kind() == io::ErrorKind::NotFound {
                return no_file(
                    path,
                    "no such file; name one that exists, or make one with --make SIZE",
                );
            }
            let (action, way_out) = if source.raw_os_error() == Some(libc::EINVAL) && access.direct
            {
                (
                    "open with O_DIRECT",
                    "its filesystem does not support O_DIRECT; leave --direct out",
                )
            } else {
                (
                    "open",
                    "name a file that this user may open, or run as a user who may",
                )
            };
            Error::Refused {
                path: path.to_owned(),
                action: action.into(),
                source,
                way_out,
            }
        };
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| refused(error.into()))?;
        let found = File::from(found);
        let metadata = found.metadata().map_err(refused)?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Err(no_file(path, "is a directory; name the files in it"));
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(no_file(
                path,
                "is neither a file nor a block device; name one",
            ));
        }
        let number = if kind.is_block_device() {
            metadata.rdev()
        } else {
            metadata.dev()
        };
        let device = Some(DeviceNumber::from_dev_t(number)).filter(|device| !device.is_anonymous());
        let open = |access: Access| -> Result<Self, Error> {
            let mut flags = 0;
            if access.direct {
                flags |= libc::O_DIRECT;
            }
            if access.durable {
                flags |= libc::O_DSYNC;
            }
            // A device is opened exclusively for writing.
            if access.write && kind.is_block_device() {
                flags |= libc::O_EXCL;
            }
            let mut file = OpenOptions::new()
                .read(true)
                .write(access.write)
                .custom_flags(flags)
                .open(format!("/proc/self/fd/{}", found.as_raw_fd()))
                .map_err(refused)?;
            // The length of a device is the offset of its end.
            let length = file.seek(SeekFrom::End(0)).map_err(refused)?;
            Ok(Self {
                path: path.to_owned(),
                file,
                length,
                device,
            })
        };
        if access.write && kind.is_block_device() && !access.lose_device {
            return Err(no_file(
                path,
                "everything on this device would be lost; to do it anyway add --i-will-lose-this-device",
            ));
        }
        // Read through the page cache, because reads with O_DIRECT may have to be larger than a sector.
        if access.write && kind.is_file() && !has_stamps(&open(LOOK)?)? {
            return Err(no_file(
                path,
                "octavo io writes only into files that it made; make one with --make SIZE",
            ));
        }
        open(access)
    }

    /// The error for a request at `offset` that the system refused.
    #[cold]
    pub(super) fn refused(&self, action: &str, offset: u64, source: io::Error) -> Error {
        let way_out = match source.raw_os_error() {
            Some(libc::EINVAL) => {
                "O_DIRECT wants multiples of the device's sector: take a larger block, or leave --direct out"
            }
            Some(libc::ENOSPC | libc::EDQUOT) => "make room",
            _ => "check the kernel log for device errors (dmesg)",
        };
        Error::Refused {
            path: self.path.clone(),
            action: format!("{action} at byte {offset}"),
            source,
            way_out,
        }
    }

    /// The error for a short read at `offset`: the file has become shorter, or the kernel met an error after the bytes
    /// that it returned.
    #[cold]
    pub(super) fn short_read(&self, offset: u64, got: usize) -> Error {
        match (&self.file).seek(SeekFrom::End(0)) {
            Ok(end) if end < self.length => Error::Shrunk {
                path: self.path.clone(),
                end,
                length: self.length,
            },
            _ => {
                let source = io::Error::other(format!("only {got} bytes were read"));
                self.refused("read", offset, source)
            }
        }
    }
}

/// The error for a path that no job can use.
pub(super) fn no_file(path: &Path, reason: &str) -> Error {
    Error::NoFile {
        path: path.to_owned(),
        reason: reason.into(),
    }
}
