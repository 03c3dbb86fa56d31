//! Traces of other programs: libCacheSim's oracleGeneral, CSV, fio's iologs, the output of blkparse; one source file
//! each.

use std::io::{BufRead, Read, Write};

use super::{Access, Accesses, Error, Item, Missing, Reader, Writer};

mod blktrace;
mod csv;
mod iolog;
mod oracle_general;
#[cfg(test)]
mod tests;

pub use blktrace::read_blktrace;
pub use csv::{read_csv, write_csv};
pub use iolog::{read_iolog, write_iolog};
pub use oracle_general::{read_oracle_general, write_oracle_general};

/// The length limit of a valid line.
const MOST_LINE: u64 = 1 << 16;
/// The size limit of a valid request.
const MOST_REQUEST: u64 = 1 << 30;
/// The limit of accesses: a line of a few bytes may become two million. An Octavo trace of this many has 2 GB or less.
const MOST_ACCESSES: u64 = if cfg!(test) { 1 << 19 } else { 1 << 32 };

/// How requests are converted to accesses of pages.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// The trace's page size in bytes.
    pub page_size: u64,
}

/// Calls with each line, without its end, and its number. Lines are bytes; invalid UTF-8 is replaced.
fn each_line<R: BufRead>(
    mut from: R,
    mut then: impl FnMut(u64, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        if (&mut from).take(MOST_LINE).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        if bytes.len() as u64 == MOST_LINE {
            return Err(Error::Line {
                line,
                what: "line exceeds 65536 bytes",
            });
        }
        then(
            line,
            String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']),
        )?;
    }
    Ok(())
}

fn number<T: std::str::FromStr>(
    text: Option<&str>,
    line: u64,
    what: &'static str,
) -> Result<T, Error> {
    text.and_then(|text| text.trim().parse().ok())
        .ok_or(Error::Line { line, what })
}

/// Adds the one access of a line or record.
fn push_access<W: Write>(into: &mut Writer<W>, access: &Access, line: u64) -> Result<(), Error> {
    if into.accesses() >= MOST_ACCESSES {
        return Err(Error::Line {
            line,
            what: "more than 4,294,967,296 accesses; convert a part of the file",
        });
    }
    into.push(access)
}

/// Adds an access for each page that the request touches.
fn push_request<W: Write>(
    into: &mut Writer<W>,
    mut access: Access,
    offset: u64,
    length: u64,
    import: Import,
    line: u64,
) -> Result<(), Error> {
    if length > MOST_REQUEST {
        return Err(Error::Line {
            line,
            what: "request exceeds 1 GB",
        });
    }
    let Some(last) = offset.checked_add(length.max(1) - 1) else {
        return Err(Error::Line {
            line,
            what: "request ends beyond the largest offset",
        });
    };
    let (first, last) = (offset / import.page_size, last / import.page_size);
    if into.accesses() + (last - first) >= MOST_ACCESSES {
        return Err(Error::Line {
            line,
            what: "more than 4,294,967,296 accesses; larger pages (--page-size) give fewer",
        });
    }
    for block in first..=last {
        access.block = block;
        into.push(&access)?;
    }
    Ok(())
}

/// Calls with each access of the trace. Returns what is missing from it.
fn each_access<R: Read>(
    reader: &mut Reader<R>,
    mut then: impl FnMut(Access) -> Result<(), Error>,
) -> Result<Missing, Error> {
    let mut accesses = Accesses::default();
    while let Some(item) = reader.next(&mut accesses)? {
        if item == Item::Accesses {
            accesses.iter().try_for_each(&mut then)?;
        }
    }
    Ok(reader.missing())
}
