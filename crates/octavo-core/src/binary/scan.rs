//! A file of any supported kind: an ELF file, a Debian package, or an archive of objects.
//!
//! Source: ar(5), deb(5). Nothing is written to disk.

use std::io::{self, Read};

use super::{Error, MOST_BYTES, Report, elf::Elf, examine, packed, report::printable, tar};

/// The limit of bytes that are unpacked of one package.
const MOST_UNPACKED: u64 = 8 << 30;
/// The limit of ELF files in one package or archive.
pub(super) const MOST_MEMBERS: usize = 4096;
/// The caller is asked whether to continue after every so many bytes.
const STEP: u64 = 1 << 20;
const MAGIC: &[u8; 8] = b"!<arch>\n";

/// One ELF file of the input: its name in a package or archive, and the report on it.
pub type Found = (Option<String>, Result<Report, Error>);

/// Reads an ELF file, or all those of a package or an archive.
///
/// `observe` gets the number of bytes that were unpacked so far; the reading ends when it returns
/// false.
///
/// # Errors
///
/// If the file is none of these, cannot be read to its end, or the caller ended the reading.
pub fn scan(
    mut source: impl Read,
    observe: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Found>, Error> {
    let mut start = Vec::with_capacity(MAGIC.len());
    source
        .by_ref()
        .take(MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    if start.is_empty() {
        return Err(Error::Empty);
    }
    if start == MAGIC {
        return archive(source, observe);
    }
    if !Elf::is_elf(&start) {
        return Err(Error::Unknown);
    }
    let mut content = start;
    source
        .take(MOST_BYTES + 1 - content.len() as u64)
        .read_to_end(&mut content)?;
    if content.len() as u64 > MOST_BYTES {
        return Err(Error::TooLarge);
    }
    Ok(vec![(None, examine(&content))])
}

fn archive(
    mut source: impl Read,
    observe: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    let mut long_names = Vec::new();
    let mut is_package = false;
    let mut header = [0; 60];
    loop {
        if !observe(0) {
            return Err(Error::Ended);
        }
        if !tar::read_whole(&mut source, &mut header)? {
            break;
        }
        let size = header_size(&header).ok_or(Error::Archive("a member has no valid size"))?;
        let name = header[..16].trim_ascii_end();
        // Members begin at even offsets.
        let mut member = source.by_ref().take(size + size % 2);
        if name == b"debian-binary" || name == b"debian-binary/" {
            is_package = true;
        } else if is_package && name.starts_with(b"data.tar") {
            return package(
                name.strip_suffix(b"/").unwrap_or(name),
                member.take(size),
                observe,
            );
        } else if name == b"//" {
            long_names = tar::content(&mut member, size.min(1 << 20))?;
        } else if !is_package && found.len() < MOST_MEMBERS {
            let name = long_name(name, &long_names);
            if let Some(result) = tar::elf(&mut member, size)? {
                found.push((Some(name), result));
            }
        }
        io::copy(&mut member, &mut io::sink())?;
        if member.limit() > 1 {
            return Err(Error::Archive("unexpected end within a member"));
        }
    }
    if is_package {
        Err(Error::Archive("no data.tar in it"))
    } else {
        Ok(found)
    }
}

fn header_size(header: &[u8; 60]) -> Option<u64> {
    let text = std::str::from_utf8(header[48..58].trim_ascii()).ok()?;
    (header[58..] == *b"`\n")
        .then(|| text.parse().ok())
        .flatten()
}

/// GNU's names of more than 15 bytes are `/` and an offset in the table.
fn long_name(name: &[u8], table: &[u8]) -> String {
    let place = name
        .strip_prefix(b"/")
        .and_then(|place| std::str::from_utf8(place).ok()?.parse().ok());
    let long = place.and_then(|place: usize| table.get(place..));
    match long {
        Some(rest) => {
            let near = &rest[..rest.len().min(256)];
            printable(
                near.split(|&byte| byte == b'/' || byte == b'\n')
                    .next()
                    .unwrap_or_default(),
            )
        }
        None => printable(name.strip_suffix(b"/").unwrap_or(name)),
    }
}

fn package(
    name: &[u8],
    data: impl Read,
    observe: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Found>, Error> {
    match &name[b"data.tar".len()..] {
        b"" => tar::members(Watched::new(data, observe)),
        b".gz" => tar::members(Watched::new(packed::gzip(data), observe)),
        b".xz" => tar::members(Watched::new(packed::xz(data), observe)),
        b".zst" => tar::members(Watched::new(packed::zstd(data)?, observe)),
        _ => Err(Error::Packed(printable(name))),
    }
}

/// Counts and limits the bytes read, and ends the reading when the caller does not want more.
struct Watched<'o, R> {
    inner: R,
    observe: &'o mut dyn FnMut(u64) -> bool,
    total: u64,
    next: u64,
}

impl<'o, R: Read> Watched<'o, R> {
    fn new(inner: R, observe: &'o mut dyn FnMut(u64) -> bool) -> Self {
        Self {
            inner,
            observe,
            total: 0,
            next: STEP,
        }
    }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.total += count as u64;
        if self.total >= self.next {
            self.next = self.total + STEP;
            if !(self.observe)(self.total) {
                return Err(io::Error::other("was not read completely"));
            }
            if self.total > MOST_UNPACKED {
                return Err(io::Error::other(
                    "is larger than 8 GB when unpacked, the most that is read",
                ));
            }
        }
        Ok(count)
    }
}
