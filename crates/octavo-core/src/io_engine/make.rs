//! Files that octavo io creates, so that it may write to them and check what it reads.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, FallocateFlags, Mode, OFlags, fallocate, fstatvfs, linkat, open, openat,
        statat, unlinkat,
    },
    io::Errno,
};

use super::{
    Error, Progress,
    buffer::Buffer,
    open_file::{LOOK, OpenFile},
    stamp::{self, SECTOR},
};

const CHUNK: usize = 1 << 20;

/// Makes a new file of this many bytes, a multiple of 512, with every sector stamped and written to the device. Returns
/// whether it was finished; the observer may end it.
///
/// The file gets its name when it is complete, so that a kill leaves nothing behind. Only if the filesystem does not
/// support unnamed files (open(2), `O_TMPFILE`) does it have its name from the beginning.
///
/// # Errors
///
/// [`Error::Refused`] if the name exists or there is not enough space. The partial file is then removed, as it is when
/// the observer ended it.
pub fn make(
    path: &Path,
    bytes: u64,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<bool, Error> {
    if bytes == 0 || bytes % SECTOR as u64 != 0 {
        return Err(Error::Parameter(format!(
            "a file of {bytes} bytes is not a multiple of {SECTOR}"
        )));
    }
    let refused = |source: io::Error| Error::Refused {
        path: path.to_owned(),
        action: "make the file".into(),
        way_out: match source.kind() {
            io::ErrorKind::AlreadyExists => {
                "octavo io makes new files only: name another, or leave --make out"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room, or make a smaller file"
            }
            _ => "name a directory that exists and that this user may write to",
        },
        source,
    };
    let (directory, name) = place_of(path).map_err(refused)?;
    let (mut file, nameless) = create(&directory, name).map_err(refused)?;
    let mut fill = || {
        reserve(&file, bytes)?;
        let mut buffer = Buffer::new(CHUNK);
        let mut done = 0;
        while done < bytes {
            let part = &mut buffer[..CHUNK.min(usize::try_from(bytes - done).unwrap_or(CHUNK))];
            stamp::write(part, done, 0);
            file.write_all(part)?;
            done += part.len() as u64;
            if !observe(Progress::Making { done, total: bytes }) {
                return Ok(false);
            }
        }
        file.sync_all()?;
        if nameless {
            give_name(&file, &directory, name)?;
        }
        Ok(true)
    };
    let made = fill();
    if !nameless && !matches!(made, Ok(true)) {
        let _ = unlinkat(&directory, name, AtFlags::empty());
    }
    made.map_err(refused)
}

/// The directory of a path, opened once, so that it cannot be replaced meanwhile, and the name in it.
fn place_of(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let name = path.file_name().ok_or(Errno::EXIST)?; // `/` and `..` exist
    Ok((open(directory, flags, Mode::empty())?, name))
}

/// A new file with this name, and whether it still has to be named.
fn create(directory: &OwnedFd, name: &OsStr) -> io::Result<(File, bool)> {
    if statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Err(Errno::EXIST.into());
    }
    let mode = Mode::from_raw_mode(0o666);
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(directory, ".", flags, mode) {
        return Ok((file.into(), true));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok((openat(directory, name, flags, mode)?.into(), false))
}

/// Names a file that was opened without a name (open(2), linkat(2)); never replaces another one.
fn give_name(file: &File, directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let open_file = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, open_file, directory, name, AtFlags::SYMLINK_FOLLOW)?;
    Ok(())
}

/// Reserves the space beforehand, so that a file that does not fit fails at once and leaves the space to others.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let filesystem = fstatvfs(file)?;
    if bytes > filesystem.f_bavail.saturating_mul(filesystem.f_frsize) {
        return Err(Errno::NOSPC.into());
    }
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // Not every filesystem supports this.
        Err(Errno::OPNOTSUPP) => Ok(()),
        result => result.map_err(io::Error::from),
    }
}

/// Whether [`make`] has made this file, by its first and its last sector.
///
/// # Errors
///
/// Those of [`OpenFile::open`], and [`Error::Refused`].
pub fn is_own(path: &Path) -> Result<bool, Error> {
    has_stamps(&OpenFile::open(path, LOOK)?)
}

/// The same for a file that is open for reading, without `O_DIRECT`.
pub(super) fn has_stamps(file: &OpenFile) -> Result<bool, Error> {
    use std::os::unix::fs::FileExt as _;

    let sectors = file.length / SECTOR as u64;
    if sectors == 0 {
        return Ok(false);
    }
    let mut buffer = [0; SECTOR];
    for offset in [0, (sectors - 1) * SECTOR as u64] {
        file.file
            .read_exact_at(&mut buffer, offset)
            .map_err(|source| file.refused("read", offset, source))?;
        if stamp::check(&buffer, file, offset).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
