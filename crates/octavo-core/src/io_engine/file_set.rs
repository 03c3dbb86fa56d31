//! The files that are read or written, as one sequence of blocks.

use std::{os::fd::AsFd as _, path::PathBuf};

use rustix::fs::{Advice, fadvise};

use super::{
    Error,
    open_file::{Access, OpenFile, no_file},
};
use crate::block_device::DeviceNumber;

/// Files in sequence; each contributes its whole blocks, and the remainder at its end is ignored.
#[derive(Debug)]
pub struct FileSet {
    files: Vec<OpenFile>,
    /// The first block of each file, and the number of all blocks at the end.
    starts: Vec<u64>,
    block: u64,
}

/// The location of a block.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub file: &'a OpenFile,
    /// The file's index.
    pub index: usize,
    /// The offset in bytes.
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

    /// The number of whole blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.starts[self.files.len()]
    }

    /// The location of a block; `block` is below [`blocks`](Self::blocks).
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

    /// The first block after the file that contains `block`.
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

    /// The devices that contain the files, without duplicates.
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

    /// Advises the kernel on every file (posix_fadvise(2)), which sets how much is read ahead.
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

    /// Writes dirty pages to the device.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`].
    pub fn sync(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(|file| {
            file.file.sync_data().map_err(|source| {
                if source.raw_os_error() != Some(libc::EIO) {
                    return file.refused("fdatasync", 0, source);
                }
                // The kernel reports such an error once to a file that is opened later (lib/errseq.c), and this was
                // that report.
                Error::Refused {
                    path: file.path.clone(),
                    action: "fdatasync".into(),
                    source,
                    way_out: "data was lost, see the kernel log (dmesg); a server on this file may not hear of it from its \
                              own fsync: stop it with pg_ctl stop -m immediate, so that it recovers from its WAL",
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::io_engine::open_file::LOOK;

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
        let set = FileSet::open(&paths, 512, LOOK).unwrap();
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
            ..LOOK
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
        for number in 0..8 {
            let device = PathBuf::from(format!("/dev/loop{number}"));
            if device.exists() {
                let error = FileSet::open(&[device], 512, write).unwrap_err();
                assert!(
                    error.to_string().contains("--i-will-lose-this-device"),
                    "{error}"
                );
            }
        }
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
            let error = FileSet::open(std::slice::from_ref(&path), 512, LOOK).unwrap_err();
            assert_eq!(error.kind(), super::super::Kind::Usage);
            let text = error.to_string();
            assert!(text.contains(said) && !text.contains('\n'), "{text}");
        }
        assert!(FileSet::open(&[], 512, LOOK).is_err());
    }
}
