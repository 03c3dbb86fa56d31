//! The files that are read or written, seen as one row of blocks.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek as _, SeekFrom},
    os::{
        fd::AsFd as _,
        unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Advice, fadvise};

use super::{Error, make::has_stamps};
use crate::block_device::DeviceNumber;

/// One open file or block device.
#[derive(Debug)]
pub struct OpenFile {
    /// Where it is.
    pub path: PathBuf,
    /// Open for what the job does.
    pub file: File,
    /// Bytes when it was opened.
    pub length: u64,
    /// The device that its data is on; for a block device it itself. None where the filesystem names none.
    pub device: Option<DeviceNumber>,
}

/// How files are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Also for writing.
    pub write: bool,
    /// With `O_DIRECT`, past the page cache.
    pub direct: bool,
    /// Each write is on the device before it ends (`O_DSYNC`).
    pub durable: bool,
}

impl OpenFile {
    /// Opens a regular file or a block device; nothing else is touched.
    ///
    /// # Errors
    ///
    /// [`Error::NoFile`], or [`Error::Refused`] for what the system does not allow.
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
        let metadata = std::fs::metadata(path).map_err(refused)?;
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
        // What is opened may be another thing than was looked at: a pipe is not waited for, and what counts is looked
        // at again. A device that is to be written is ours alone meanwhile.
        let mut flags = libc::O_NONBLOCK;
        if access.direct {
            flags |= libc::O_DIRECT;
        }
        if access.durable {
            flags |= libc::O_DSYNC;
        }
        if access.write && kind.is_block_device() {
            flags |= libc::O_EXCL;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(access.write)
            .custom_flags(flags)
            .open(path)
            .map_err(refused)?;
        let looked_at = metadata;
        let metadata = file.metadata().map_err(refused)?;
        if (metadata.dev(), metadata.ino()) != (looked_at.dev(), looked_at.ino()) {
            return Err(no_file(path, "was replaced after it was opened"));
        }
        // A device has no length of its own; its end does.
        let length = file.seek(SeekFrom::End(0)).map_err(refused)?;
        let number = if kind.is_block_device() {
            metadata.rdev()
        } else {
            metadata.dev()
        };
        let device = Some(DeviceNumber::from_dev_t(number)).filter(|device| !device.is_anonymous());
        Ok(Self {
            path: path.to_owned(),
            file,
            length,
            device,
        })
    }

    /// Refuses a file that [`make`](super::make) has not made: the open one, whatever its path leads to by now.
    fn check_writable(&self) -> Result<(), Error> {
        let facts = |file: &File| {
            file.metadata()
                .map_err(|source| self.refused("look at the file", 0, source))
        };
        let ours = facts(&self.file)?;
        if ours.file_type().is_block_device() {
            return Ok(());
        }
        // Read through the page cache, which a file that is open with O_DIRECT cannot be by the sector.
        let plain = Self::open(
            &self.path,
            Access {
                write: false,
                direct: false,
                durable: false,
            },
        )?;
        let read = facts(&plain.file)?;
        if (ours.dev(), ours.ino()) == (read.dev(), read.ino()) && has_stamps(&plain)? {
            return Ok(());
        }
        Err(no_file(
            &self.path,
            "octavo io writes only into files that it made; make one with --make SIZE",
        ))
    }

    /// Makes the error for a request at `offset` that the system refused.
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

    /// Makes the error for a read at `offset` that got less than there was.
    #[cold]
    pub(super) fn short_read(&self, offset: u64, got: usize) -> Error {
        let end = self
            .file
            .metadata()
            .map_or(offset + got as u64, |metadata| metadata.len());
        Error::Shrunk {
            path: self.path.clone(),
            end,
            length: self.length,
        }
    }
}

fn no_file(path: &Path, reason: &str) -> Error {
    Error::NoFile {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

/// Files in a row; each holds whole blocks, and what is left at its end is not looked at.
#[derive(Debug)]
pub struct FileSet {
    files: Vec<OpenFile>,
    /// The first block of each file, and the number of all blocks at the end.
    starts: Vec<u64>,
    block: u64,
}

/// Where a block is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// In which file.
    pub file: &'a OpenFile,
    /// Which one that is.
    pub index: usize,
    /// At which byte.
    pub offset: u64,
}

impl FileSet {
    /// Opens files in their order, for blocks of this many bytes.
    ///
    /// # Errors
    ///
    /// Those of [`OpenFile::open`], and [`Error::NoFile`] for a file without a whole block.
    pub fn open(paths: &[PathBuf], block: u64, access: Access) -> Result<Self, Error> {
        let mut files = Vec::with_capacity(paths.len());
        let mut starts = vec![0];
        for path in paths {
            let file = OpenFile::open(path, access)?;
            if access.write {
                file.check_writable()?;
            }
            if file.length < block {
                return Err(if file.length == 0 {
                    no_file(path, "is empty; name a file with data in it")
                } else {
                    let reason = format!(
                        "has {} bytes, less than one block of {block}; take a smaller block",
                        file.length
                    );
                    no_file(path, &reason)
                });
            }
            starts.push(starts.last().copied().unwrap_or_default() + file.length / block);
            files.push(file);
        }
        if files.is_empty() {
            return Err(Error::Parameter(
                "no file was named; name at least one".into(),
            ));
        }
        Ok(Self {
            files,
            starts,
            block,
        })
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &[OpenFile] {
        &self.files
    }

    /// How many whole blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.starts[self.files.len()]
    }

    /// Where a block is; `block` is below [`blocks`](Self::blocks).
    #[must_use]
    #[inline]
    pub fn place(&self, block: u64) -> Place<'_> {
        let index = self.index_of(block);
        Place {
            file: &self.files[index],
            index,
            offset: (block - self.starts[index]) * self.block,
        }
    }

    /// The first block behind the file that holds `block`.
    #[must_use]
    #[inline]
    pub fn end_of_file(&self, block: u64) -> u64 {
        self.starts[self.index_of(block) + 1]
    }

    #[inline]
    fn index_of(&self, block: u64) -> usize {
        if self.files.len() == 1 {
            0
        } else {
            self.starts.partition_point(|start| *start <= block) - 1
        }
    }

    /// The devices that the files are on, each once.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceNumber> {
        let mut devices = Vec::new();
        for device in self.files.iter().filter_map(|file| file.device) {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        devices
    }

    /// Tells the kernel what to expect of every file (posix_fadvise(2)): it sets how much is read ahead.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`].
    pub fn advise(&self, advice: Advice) -> Result<(), Error> {
        self.files.iter().try_for_each(|file| {
            fadvise(file.file.as_fd(), 0, None, advice)
                .map_err(|source| file.refused("posix_fadvise", 0, source.into()))
        })
    }

    /// Writes back what is dirty.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`].
    pub fn sync(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(|file| {
            file.file
                .sync_data()
                .map_err(|source| file.refused("fdatasync", 0, source))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Access = Access {
        write: false,
        direct: false,
        durable: false,
    };

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let directory =
                std::env::temp_dir().join(format!("octavo-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&directory).unwrap();
            Self(directory)
        }

        fn file(&self, name: &str, bytes: usize) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, vec![7; bytes]).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn blocks_are_found_in_their_files() {
        let scratch = Scratch::new("places");
        let paths = [
            scratch.file("a", 3 * 512),
            scratch.file("b", 512 + 100),
            scratch.file("c", 2 * 512),
        ];
        let set = FileSet::open(&paths, 512, READ).unwrap();
        assert_eq!(set.blocks(), 6);
        let places: Vec<(usize, u64)> = (0..6)
            .map(|block| (set.place(block).index, set.place(block).offset))
            .collect();
        assert_eq!(
            places,
            [(0, 0), (0, 512), (0, 1024), (1, 0), (2, 0), (2, 512)]
        );
        assert_eq!(
            [0, 2, 3, 4].map(|block| set.end_of_file(block)),
            [3, 3, 4, 6]
        );
    }

    #[test]
    fn a_foreign_file_is_not_opened_for_writing() {
        let scratch = Scratch::new("foreign");
        let foreign = scratch.file("foreign", 4 * 512);
        let own = scratch.0.join("own");
        assert!(super::super::make(&own, 4 * 512, &mut |_| true).unwrap());
        let link = scratch.0.join("link");
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        let write = Access {
            write: true,
            direct: false,
            durable: false,
        };
        for path in [foreign, link] {
            let error = FileSet::open(std::slice::from_ref(&path), 512, write).unwrap_err();
            assert_eq!(error.kind(), super::super::Kind::Usage);
            assert!(
                error.to_string().contains("octavo io writes only into"),
                "{error}"
            );
        }
        assert_eq!(FileSet::open(&[own], 512, write).unwrap().blocks(), 4);
    }

    #[test]
    fn what_is_no_file_is_refused_in_one_line() {
        let scratch = Scratch::new("refused");
        let cases = [
            (scratch.0.join("none"), "no such file"),
            (scratch.0.clone(), "is a directory"),
            (
                PathBuf::from("/dev/null"),
                "neither a file nor a block device",
            ),
            (scratch.file("empty", 0), "is empty"),
            (
                scratch.file("short", 100),
                "has 100 bytes, less than one block of 512",
            ),
        ];
        for (path, said) in cases {
            let error = FileSet::open(std::slice::from_ref(&path), 512, READ).unwrap_err();
            assert_eq!(error.kind(), super::super::Kind::Usage);
            let text = error.to_string();
            assert!(text.contains(said) && !text.contains('\n'), "{text}");
        }
        assert!(FileSet::open(&[], 512, READ).is_err());
    }
}
