//! The page cache of a file set: dropping, filling and measuring it.

use std::{
    fs::File,
    io,
    os::fd::{AsFd as _, AsRawFd as _},
};

use rustix::fs::Advice;

use super::{Error, buffer::Buffer, file_set::FileSet};

/// Bytes per read when the cache is filled.
const CHUNK: usize = 1 << 20;

/// Drops the files from the page cache, after writing dirty pages. Pages that another process has mapped remain.
///
/// # Errors
///
/// [`Error::Refused`].
pub(super) fn empty(files: &FileSet) -> Result<(), Error> {
    files.sync()?;
    files.advise(Advice::DontNeed)
}

/// Reads all files once. `observe` gets the bytes read so far, and ends the reading by returning false.
///
/// # Errors
///
/// [`Error::Refused`].
pub(super) fn fill(files: &FileSet, observe: &mut dyn FnMut(u64) -> bool) -> Result<(), Error> {
    let mut buffer = Buffer::new(CHUNK);
    let mut done = 0;
    for file in files.files() {
        let mut offset = 0;
        loop {
            let read = rustix::io::retry_on_intr(|| {
                rustix::io::pread(file.file.as_fd(), &mut buffer[..], offset)
            })
            .map_err(|source| file.refused("read", offset, source.into()))?;
            if read == 0 {
                break;
            }
            offset += read as u64;
            done += read as u64;
            if !observe(done) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Bytes of the files in the page cache; None if the kernel cannot report it (before Linux 6.5).
#[must_use]
pub(super) fn held(files: &FileSet) -> Option<u64> {
    files
        .files()
        .iter()
        .map(|file| held_of(&file.file).ok())
        .sum()
}

/// `struct cachestat_range` of cachestat(2).
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of cachestat(2), in pages.
#[derive(Default)]
#[repr(C)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The number is the same on all architectures but Alpha (the kernel's scripts/syscall.tbl).
const CACHESTAT: libc::c_long = 451;

#[allow(unsafe_code)]
fn held_of(file: &File) -> io::Result<u64> {
    let range = Range {
        offset: 0,
        length: 0,
    }; // all of it
    let mut pages = Pages::default();
    let no_flags: libc::c_uint = 0;
    // SAFETY: the kernel reads `range` and writes `pages`, both laid out as it documents, and neither is kept.
    let status = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut pages,
            no_flags,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(pages.cached * rustix::param::page_size() as u64)
}
