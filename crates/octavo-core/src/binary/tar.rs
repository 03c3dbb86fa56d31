//! The ELF files of a tar archive, one after the other.
//!
//! Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar's long names.

use std::io::{self, Read};

use super::{
    Error, MOST_BYTES, Report,
    elf::Elf,
    examine,
    report::printable,
    scan::{Found, MOST_MEMBERS},
};

const BLOCK: u64 = 512;
const LONGEST_NAME: u64 = 64 << 10;

/// Fills a buffer. False at the end, before its first byte.
///
/// # Errors
///
/// If the end comes before the buffer is full.
pub(super) fn read_whole(source: &mut impl Read, buffer: &mut [u8]) -> Result<bool, Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(Error::Archive("unexpected end within a header")),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Exactly this many bytes.
///
/// # Errors
///
/// If there are fewer.
pub(super) fn content(source: &mut impl Read, size: u64) -> Result<Vec<u8>, Error> {
    // The buffer grows with the data, whatever size the header gives.
    let mut found = Vec::new();
    source.by_ref().take(size).read_to_end(&mut found)?;
    if (found.len() as u64) < size {
        Err(Error::Archive("unexpected end within a member"))
    } else {
        Ok(found)
    }
}

/// The content of a member if that is an ELF file; its beginning has already been read.
pub(super) fn elf(
    source: &mut impl Read,
    size: u64,
) -> Result<Option<Result<Report, Error>>, Error> {
    let mut found = content(source, size.min(4))?;
    if !Elf::is_elf(&found) {
        return Ok(None);
    }
    if size > MOST_BYTES {
        return Ok(Some(Err(Error::TooLarge)));
    }
    found.append(&mut content(source, size - 4)?);
    Ok(Some(examine(&found)))
}

/// Reads all members, and examines those that are ELF files.
pub(super) fn members(mut source: impl Read) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    let mut header = [0; BLOCK as usize];
    let (mut next_name, mut next_size) = (None, None);
    while read_whole(&mut source, &mut header)? {
        if header.iter().all(|&byte| byte == 0) {
            return Ok(found);
        }
        let size = number(&header[124..136]).ok_or(Error::Archive("a member has no valid size"))?;
        let kind = header[156];
        match kind {
            b'L' => {
                let name = content(&mut source, size.min(LONGEST_NAME))?;
                next_name = Some(
                    name.split(|&byte| byte == 0)
                        .next()
                        .unwrap_or_default()
                        .to_vec(),
                );
                skip(&mut source, padded(size) - size.min(LONGEST_NAME))?;
            }
            b'x' => {
                let records = content(&mut source, size.min(LONGEST_NAME))?;
                skip(&mut source, padded(size) - size.min(LONGEST_NAME))?;
                if let Some(name) = record(&records, b"path") {
                    next_name = Some(name.to_vec());
                }
                let said = record(&records, b"size")
                    .and_then(|size| std::str::from_utf8(size).ok()?.parse().ok());
                next_size = said.or(next_size);
            }
            b'0' | 0 | b'7' => {
                let size = next_size.take().unwrap_or(size);
                let name = next_name.take().unwrap_or_else(|| short_name(&header));
                let mut member = source.by_ref().take(padded(size));
                if found.len() < MOST_MEMBERS {
                    if let Some(result) = elf(&mut member, size)? {
                        found.push((Some(printable(&name)), result));
                    }
                }
                let left = member.limit();
                skip(&mut source, left)?;
            }
            _ => {
                (next_name, next_size) = (None, None);
                // Links have no content, whatever size their header gives.
                let size = if (b'1'..=b'6').contains(&kind) {
                    0
                } else {
                    padded(size)
                };
                skip(&mut source, size)?;
            }
        }
    }
    Ok(found)
}

fn padded(size: u64) -> u64 {
    size.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

fn skip(source: &mut impl Read, bytes: u64) -> Result<(), Error> {
    let skipped = io::copy(&mut source.by_ref().take(bytes), &mut io::sink())?;
    if skipped < bytes {
        Err(Error::Archive("unexpected end within a member"))
    } else {
        Ok(())
    }
}

/// An octal number, or GNU's binary number for sizes above 8 GB.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (&first, rest) = field.split_first()?;
        let start = u64::from(first & 0x3f);
        return rest.iter().try_fold(start, |sum, &byte| {
            sum.checked_mul(256)?.checked_add(u64::from(byte))
        });
    }
    let text = std::str::from_utf8(field).ok()?;
    let text = text.trim_matches(|one| one == ' ' || one == '\0');
    if text.is_empty() {
        Some(0)
    } else {
        u64::from_str_radix(text, 8).ok()
    }
}

fn short_name(header: &[u8; BLOCK as usize]) -> Vec<u8> {
    let text = |field: &[u8]| {
        field
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec()
    };
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    let is_posix = header[257..263] == *b"ustar\0";
    if is_posix && !prefix.is_empty() {
        [prefix, name].join(&b'/')
    } else {
        name
    }
}

/// The value of a pax record: `27 path=…\n`.
fn record<'r>(records: &'r [u8], key: &[u8]) -> Option<&'r [u8]> {
    let mut rest = records;
    while let Some(space) = rest.iter().position(|&byte| byte == b' ') {
        let length: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
        let entry = rest.get(space + 1..length.checked_sub(1)?)?;
        if let Some(value) = entry
            .strip_prefix(key)
            .and_then(|value| value.strip_prefix(b"="))
        {
            return Some(value);
        }
        rest = rest.get(length..)?;
    }
    None
}
