//! fio's iologs.

use std::{
    collections::{HashMap, hash_map::Entry},
    io::{BufRead, Read, Write},
};

use super::super::{Access, Accesses, Error, Item, Kind, Missing, Reader, Stream, Writer};
use super::{Import, each_line, number, push_request};

/// The limit of file names, and of their bytes.
pub(super) const MOST_NAMES: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
pub(super) const MOST_NAME_BYTES: usize = 64 << 20;

/// Reads an iolog of fio, version 2 or 3 (docs: "Trace file format"); version 3 has times, in microseconds (log_io_u of
/// fio's iolog.c). Each file is a stream; a write is a page that did not have to be read.
///
/// # Errors
/// An invalid line, or an error in reading or writing.
pub fn read_iolog<R: BufRead, W: Write>(
    from: R,
    into: &mut Writer<W>,
    import: Import,
) -> Result<(), Error> {
    let mut files: HashMap<String, u32> = HashMap::new();
    let mut name_bytes = 0;
    let mut has_times = None;
    each_line(from, |line, text| {
        let Some(has_times) = has_times else {
            has_times = match text.trim() {
                "fio version 2 iolog" => Some(false),
                "fio version 3 iolog" => Some(true),
                _ => {
                    return Err(Error::Line {
                        line,
                        what: "not an fio iolog of version 2 or 3",
                    });
                }
            };
            return Ok(());
        };
        let mut words = text.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            return Ok(());
        }
        let time = if has_times {
            number::<u64>(words.next(), line, "time is not a number")?
        } else {
            0
        };
        let name = words.next().unwrap_or("");
        let kind = match words.next() {
            Some("read") => Kind::Read,
            Some("write") => Kind::Extend,
            Some(
                "add" | "open" | "close" | "wait" | "sync" | "datasync" | "sync_file_range"
                | "trim",
            ) => return Ok(()),
            _ => {
                return Err(Error::Line {
                    line,
                    what: "unknown action",
                });
            }
        };
        let next = files.len() as u32;
        let relation = match files.get(name) {
            Some(&known) => known,
            None => {
                name_bytes += name.len();
                if files.len() >= MOST_NAMES || name_bytes > MOST_NAME_BYTES {
                    return Err(Error::Line {
                        line,
                        what: "more than 1,048,576 files, or 64 MB of file names",
                    });
                }
                *files.entry(name.to_owned()).or_insert(next)
            }
        };
        let access = Access {
            time,
            stream: Stream {
                relation,
                ..Stream::default()
            },
            kind,
            ..Access::default()
        };
        let offset = number(words.next(), line, "offset is not a number")?;
        let length = number(words.next(), line, "length is not a number")?;
        push_request(into, access, offset, length, import, line)
    })
}

/// Writes an iolog of fio, version 2: one file per stream, named as PostgreSQL names it.
///
/// # Errors
/// An error in reading or writing.
pub fn write_iolog<R: Read, W: Write>(
    reader: &mut Reader<R>,
    mut into: W,
) -> Result<Missing, Error> {
    writeln!(into, "fio version 2 iolog")?;
    let mut names: HashMap<Stream, String> = HashMap::new();
    let mut accesses = Accesses::default();
    while let Some(item) = reader.next(&mut accesses)? {
        if item != Item::Accesses {
            continue;
        }
        let size = u64::from(reader.page_size().unwrap_or(0));
        for access in accesses.iter() {
            let action = match access.kind {
                Kind::Read | Kind::Pin => "read",
                Kind::Extend => "write",
                Kind::Change | Kind::FullPageImage => continue,
            };
            let name = match names.entry(access.stream) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => {
                    let Stream {
                        space,
                        database,
                        relation,
                        fork,
                    } = access.stream;
                    let suffix = ["", "_fsm", "_vm", "_init"]
                        .get(usize::from(fork))
                        .unwrap_or(&"_other");
                    let name = format!("{space}/{database}/{relation}{suffix}");
                    writeln!(into, "{name} add\n{name} open")?;
                    free.insert(name)
                }
            };
            let offset = access.block.saturating_mul(size);
            writeln!(into, "{name} {action} {offset} {size}")?;
        }
    }
    Ok(reader.missing())
}
