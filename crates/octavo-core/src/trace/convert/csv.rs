//! Comma-separated values: one line per access.

use std::io::{BufRead, Read, Write};

use super::super::{Access, Error, Kind, Missing, Reader, Strategy, Stream, Writer};
use super::{each_access, each_line, number, push_access};

const CSV_COLUMNS: &str = "time_us,backend,tablespace,database,relation,fork,block,kind,strategy";

const KINDS: [(&str, Kind); 5] = [
    ("read", Kind::Read),
    ("extend", Kind::Extend),
    ("change", Kind::Change),
    ("full_page_image", Kind::FullPageImage),
    ("pin", Kind::Pin),
];
const STRATEGIES: [(&str, Strategy); 4] = [
    ("normal", Strategy::Normal),
    ("bulk_read", Strategy::BulkRead),
    ("bulk_write", Strategy::BulkWrite),
    ("vacuum", Strategy::Vacuum),
];

fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words
        .iter()
        .find(|word| word.1 == value)
        .map_or("", |word| word.0)
}

/// Reads CSV whose first line names columns of `write_csv`, in any order; all except `block` are optional. Fields are
/// not quoted.
///
/// # Errors
/// An invalid line, too many accesses, or an error in reading or writing.
pub fn read_csv<R: BufRead, W: Write>(from: R, into: &mut Writer<W>) -> Result<(), Error> {
    let mut columns: Vec<Option<usize>> = Vec::new();
    each_line(from, |line, text| {
        if columns.is_empty() {
            let names: Vec<&str> = text.split(',').map(str::trim).collect();
            columns = CSV_COLUMNS
                .split(',')
                .map(|wanted| {
                    names
                        .iter()
                        .position(|name| name.eq_ignore_ascii_case(wanted))
                })
                .collect();
            if columns[6].is_none() {
                return Err(Error::Line {
                    line,
                    what: "there is no column named block",
                });
            }
            return Ok(());
        }
        if text.trim().is_empty() {
            return Ok(());
        }
        let fields: Vec<&str> = text.split(',').collect();
        let field = |column: usize| {
            columns[column].map(|place| fields.get(place).copied().unwrap_or("").trim())
        };
        let small = |column: usize, what: &'static str| match field(column) {
            None => Ok(0),
            found => number::<u32>(found, line, what),
        };
        let of = |name: &str, what: &'static str| Error::Line {
            line,
            what: if name.is_empty() {
                "a field is empty"
            } else {
                what
            },
        };
        let access = Access {
            time: field(0).map_or(Ok(0), |text| {
                number(Some(text), line, "time_us is not a number")
            })?,
            backend: small(1, "backend is not a number")?,
            stream: Stream {
                space: small(2, "tablespace is not a number")?,
                database: small(3, "database is not a number")?,
                relation: small(4, "relation is not a number")?,
                fork: field(5).map_or(Ok(0), |text| {
                    number(Some(text), line, "fork is not a number from 0 to 255")
                })?,
            },
            block: number(field(6), line, "block is not a number")?,
            kind: field(7).map_or(Ok(Kind::Read), |text| {
                let found = KINDS.iter().find(|word| word.0 == text);
                found.map(|word| word.1).ok_or_else(|| {
                    of(
                        text,
                        "kind must be read, extend, change, full_page_image or pin",
                    )
                })
            })?,
            strategy: field(8).map_or(Ok(Strategy::Normal), |text| {
                let found = STRATEGIES.iter().find(|word| word.0 == text);
                found.map(|word| word.1).ok_or_else(|| {
                    of(
                        text,
                        "strategy must be normal, bulk_read, bulk_write or vacuum",
                    )
                })
            })?,
        };
        push_access(into, &access, line)
    })
}

/// Writes a line for each access. Returns what is missing from the trace.
///
/// # Errors
/// An error in reading or writing.
pub fn write_csv<R: Read, W: Write>(reader: &mut Reader<R>, mut into: W) -> Result<Missing, Error> {
    writeln!(into, "{CSV_COLUMNS}")?;
    each_access(reader, |access| {
        let Access {
            time,
            backend,
            stream,
            block,
            kind,
            strategy,
        } = access;
        let Stream {
            space,
            database,
            relation,
            fork,
        } = stream;
        let (kind, strategy) = (word(&KINDS, kind), word(&STRATEGIES, strategy));
        writeln!(
            into,
            "{time},{backend},{space},{database},{relation},{fork},{block},{kind},{strategy}"
        )?;
        Ok(())
    })
}
