//! Traces of other programs: libCacheSim's oracleGeneral, CSV, fio's iologs, the text of blkparse.

use std::{
    collections::{HashMap, hash_map::Entry},
    io::{BufRead, Read, Write},
};

use super::{Access, Accesses, Error, Item, Kind, Missing, Reader, Strategy, Stream, Writer};

/// Longer lines are none.
const MOST_LINE: u64 = 1 << 16;
/// Longer requests are none.
const MOST_REQUEST: u64 = 1 << 30;
/// Accesses that requests become: a line of a few bytes may be two million. Ours are 2 GB or less of so many.
const MOST_ACCESSES: u64 = if cfg!(test) { 1 << 19 } else { 1 << 32 };
/// Names of files, and their bytes.
const MOST_NAMES: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
const MOST_NAME_BYTES: usize = 64 << 20;
/// Bytes of a sector in the kernel's counting, whatever the device's.
const SECTOR: u64 = 512;
/// clock_time, obj_id, obj_size, next_access_vtime: 4, 8, 4 and 8 bytes.
const ORACLE_RECORD: usize = 24;

/// How requests become accesses of pages.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// Of the trace's pages, in bytes.
    pub page_size: u64,
}

/// Calls with each line, its number and without its end. Lines are bytes; what is no UTF-8 is replaced.
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
                what: "it is longer than 65536 bytes",
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
            what: "a request is longer than 1 GB",
        });
    }
    let Some(last) = offset.checked_add(length.max(1) - 1) else {
        return Err(Error::Line {
            line,
            what: "a request ends behind the last offset that there is",
        });
    };
    let (first, last) = (offset / import.page_size, last / import.page_size);
    if into.accesses() + (last - first) >= MOST_ACCESSES {
        return Err(Error::Line {
            line,
            what: "it is more than 4,294,967,296 accesses up to here; larger pages (--page-size) are fewer",
        });
    }
    for block in first..=last {
        access.block = block;
        into.push(&access)?;
    }
    Ok(())
}

// ── CSV ─────────────────────────────────────────────────────────────────────────────────────────

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

/// Reads CSV whose first line names the columns of `write_csv`, in any order; all but `block` may be missing. Fields
/// are not quoted.
///
/// # Errors
/// A line that is none, or what cannot be read or written.
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
                    what: "no column is called block",
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
                number(Some(text), line, "time_us is no number")
            })?,
            backend: small(1, "backend is no number")?,
            stream: Stream {
                space: small(2, "tablespace is no number")?,
                database: small(3, "database is no number")?,
                relation: small(4, "relation is no number")?,
                fork: field(5).map_or(Ok(0), |text| {
                    number(Some(text), line, "fork is no number up to 255")
                })?,
            },
            block: number(field(6), line, "block is no number")?,
            kind: field(7).map_or(Ok(Kind::Read), |text| {
                let found = KINDS.iter().find(|word| word.0 == text);
                found.map(|word| word.1).ok_or_else(|| {
                    of(
                        text,
                        "kind is not read, extend, change, full_page_image or pin",
                    )
                })
            })?,
            strategy: field(8).map_or(Ok(Strategy::Normal), |text| {
                let found = STRATEGIES.iter().find(|word| word.0 == text);
                found.map(|word| word.1).ok_or_else(|| {
                    of(
                        text,
                        "strategy is not normal, bulk_read, bulk_write or vacuum",
                    )
                })
            })?,
        };
        into.push(&access)
    })
}

/// Writes a line for each access. Returns what of the trace is missing.
///
/// # Errors
/// What cannot be read or written.
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

// ── libCacheSim's oracleGeneral ─────────────────────────────────────────────────────────────────

/// Reads records of 24 bytes. An object is a page; objects have no neighbours, so they are numbered as they come.
///
/// # Errors
/// A record is cut, or what cannot be read or written.
pub fn read_oracle_general<R: Read, W: Write>(
    mut from: R,
    into: &mut Writer<W>,
) -> Result<(), Error> {
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    let mut record = [0; ORACLE_RECORD];
    for line in 1.. {
        let mut there = 0;
        while there < ORACLE_RECORD {
            match from.read(&mut record[there..])? {
                0 => break,
                more => there += more,
            }
        }
        match there {
            0 => break,
            ORACLE_RECORD => {}
            _ => {
                return Err(Error::Line {
                    line,
                    what: "the last record of 24 bytes is cut",
                });
            }
        }
        let seconds = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
        let object = u64::from_le_bytes([
            record[4], record[5], record[6], record[7], record[8], record[9], record[10],
            record[11],
        ]);
        let next = numbers.len() as u64;
        let block = *numbers.entry(object).or_insert(next);
        into.push(&Access {
            time: u64::from(seconds) * 1_000_000,
            block,
            ..Access::default()
        })?;
    }
    Ok(())
}

/// Writes a record of 24 bytes for each access that is no change. The trace is read twice, because a record holds the
/// number of the object's next one; memory: 8 bytes an access and about 40 a page. Returns what is missing.
///
/// # Errors
/// What cannot be read or written.
pub fn write_oracle_general<R: Read, W: Write>(
    mut open: impl FnMut() -> Result<Reader<R>, Error>,
    mut into: W,
) -> Result<Missing, Error> {
    let is_change = |access: &Access| matches!(access.kind, Kind::Change | Kind::FullPageImage);
    let mut last: HashMap<(Stream, u64), usize> = HashMap::new();
    let mut next: Vec<i64> = Vec::new();
    each_access(&mut open()?, |access| {
        if !is_change(&access) {
            let now = next.len();
            if let Some(before) = last.insert((access.stream, access.block), now) {
                next[before] = now as i64;
            }
            next.push(-1);
        }
        Ok(())
    })?;
    drop(last);
    let mut streams: HashMap<Stream, u64> = HashMap::new();
    let mut next = next.into_iter();
    let mut reader = open()?;
    each_access(&mut reader, |access| {
        if is_change(&access) {
            return Ok(());
        }
        let number = streams.len() as u64;
        let stream = *streams.entry(access.stream).or_insert(number);
        let seconds = u32::try_from(access.time / 1_000_000).unwrap_or(u32::MAX);
        into.write_all(&seconds.to_le_bytes())?;
        // Neighbours stay neighbours, and the streams apart for blocks below 2^40.
        into.write_all(&(access.block ^ stream << 40).to_le_bytes())?;
        into.write_all(&1_u32.to_le_bytes())?;
        into.write_all(&next.next().unwrap_or(-1).to_le_bytes())?;
        Ok(())
    })
}

// ── fio ─────────────────────────────────────────────────────────────────────────────────────────

/// Reads an iolog of fio, version 2 or 3 (docs: "Trace file format"). Each file is a stream; a write is a page that
/// nobody had to read.
///
/// # Errors
/// A line that is none, or what cannot be read or written.
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
                        what: "it does not begin with fio version 2 iolog, or 3",
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
            number::<u64>(words.next(), line, "its time is no number")?
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
                    what: "its action is none of fio's",
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
                        what: "it has more than 1,048,576 files up to here, or 64 MB of their names",
                    });
                }
                *files.entry(name.to_owned()).or_insert(next)
            }
        };
        let access = Access {
            time: time.saturating_mul(1000),
            stream: Stream {
                relation,
                ..Stream::default()
            },
            kind,
            ..Access::default()
        };
        let offset = number(words.next(), line, "its offset is no number")?;
        let length = number(words.next(), line, "its length is no number")?;
        push_request(into, access, offset, length, import, line)
    })
}

/// Writes an iolog of fio, version 2: a file for each stream, named as PostgreSQL names it.
///
/// # Errors
/// What cannot be read or written.
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

// ── blkparse ────────────────────────────────────────────────────────────────────────────────────

/// Reads the text of blkparse: requests as they were queued (action Q). Each device is a stream, each process a backend.
///
/// # Errors
/// A line of a request that is none, or what cannot be read or written. Other lines (the summary) are passed over.
pub fn read_blktrace<R: BufRead, W: Write>(
    from: R,
    into: &mut Writer<W>,
    import: Import,
) -> Result<(), Error> {
    each_line(from, |line, text| {
        let mut words = text.split_ascii_whitespace();
        // major,minor cpu sequence seconds pid action what sector + sectors [command]
        let Some((major, minor)) = words.next().and_then(|device| device.split_once(',')) else {
            return Ok(());
        };
        let (Ok(major), Ok(minor)) = (major.parse::<u32>(), minor.parse::<u32>()) else {
            return Ok(());
        };
        let (time, pid) = (words.nth(2), words.next());
        let (action, what) = (words.next(), words.next().unwrap_or(""));
        if action != Some("Q") || !what.contains(['R', 'W']) {
            return Ok(());
        }
        let seconds: f64 = number(time, line, "its time is no number")?;
        let (sector, plus) = (words.next(), words.next());
        if plus != Some("+") {
            return Ok(()); // without data, such as a flush
        }
        let sector: u64 = number(sector, line, "its sector is no number")?;
        let sectors: u64 = number(words.next(), line, "its length is no number")?;
        let access = Access {
            time: (seconds * 1e6) as u64,
            backend: number(pid, line, "its process is no number")?,
            stream: Stream {
                space: major,
                database: minor,
                ..Stream::default()
            },
            kind: if what.contains('W') {
                Kind::Extend
            } else {
                Kind::Read
            },
            ..Access::default()
        };
        push_request(
            into,
            access,
            sector.saturating_mul(SECTOR),
            sectors.saturating_mul(SECTOR),
            import,
            line,
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{super::columns::tests::accesses, *};

    const IMPORT: Import = Import { page_size: 4096 };

    fn imported(
        read: impl FnOnce(&mut Writer<Vec<u8>>) -> Result<(), Error>,
    ) -> Result<Vec<u8>, Error> {
        let mut writer = Writer::new(Vec::new(), 4096)?;
        read(&mut writer)?;
        writer.finish()
    }

    #[test]
    fn few_lines_are_not_any_number_of_accesses_or_files() {
        let line = |number: u64| format!("a read 0 {}\n", number * 4096);
        let with = |lines: &str| {
            let text = format!("fio version 2 iolog\n{lines}");
            imported(|writer| read_iolog(text.as_bytes(), writer, IMPORT))
        };
        let (fits, more) = (line(MOST_ACCESSES / 2), line(MOST_ACCESSES / 2 + 1));
        assert!(with(&format!("{fits}{fits}")).is_ok());
        assert!(matches!(
            with(&format!("{fits}{more}")),
            Err(Error::Line { line: 3, .. })
        ));
        let names = |count: usize| {
            let lines: Vec<String> = (0..count)
                .map(|name| format!("{name} read 0 1\n"))
                .collect();
            with(&lines.concat())
        };
        assert!(names(MOST_NAMES).is_ok());
        assert!(names(MOST_NAMES + 1).is_err());
    }

    fn all(bytes: &[u8]) -> Vec<Access> {
        let mut found = Vec::new();
        let missing = each_access(&mut Reader::new(bytes), |access| {
            found.push(access);
            Ok(())
        });
        assert_eq!(missing.unwrap(), Missing::default());
        found
    }

    fn pages(found: &[Access]) -> Vec<(u32, u64, Kind)> {
        found
            .iter()
            .map(|access| (access.stream.relation, access.block, access.kind))
            .collect()
    }

    #[test]
    fn requests_of_fio_are_pages() {
        let text = b"fio version 3 iolog\n0 /data/a add\n0 /data/a open\n7 /data/a read 4096 8192\n8 /data/b write 0 512\n9 /data/a close\n";
        let found = all(&imported(|writer| read_iolog(&text[..], writer, IMPORT)).unwrap());
        assert_eq!(
            pages(&found),
            [(0, 1, Kind::Read), (0, 2, Kind::Read), (1, 0, Kind::Extend)]
        );
        assert_eq!(found[2].time, 8000);
        let again = imported(|writer| {
            read_iolog(&b"fio version 2 iolog\n/a read 1 zz\n"[..], writer, IMPORT)
        });
        assert!(matches!(again, Err(Error::Line { line: 2, .. })));
    }

    #[test]
    fn requests_of_blkparse_are_pages() {
        let text = b"  8,0    3    1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3    2     0.000001829   697  Q  WS 223488 + 16 [kjournald]
  8,0    3    3     0.5           700  Q   R 0 + 1 [postgres]
  8,0    3    4     0.6           700  Q FWS [postgres]
CPU0 (8,0):
 Reads Queued:           1,        1KiB\n";
        let found = all(&imported(|writer| read_blktrace(&text[..], writer, IMPORT)).unwrap());
        let expected = [
            (27_936, Kind::Extend, 697),
            (27_937, Kind::Extend, 697),
            (0, Kind::Read, 700),
        ];
        assert_eq!(
            found
                .iter()
                .map(|access| (access.block, access.kind, access.backend))
                .collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn columns_of_csv_are_found_by_name() {
        let text = b"Block, kind\n7,read\n\n9,extend\n";
        let found = all(&imported(|writer| read_csv(&text[..], writer)).unwrap());
        assert_eq!(pages(&found), [(0, 7, Kind::Read), (0, 9, Kind::Extend)]);
        for (text, line) in [
            (&b"page\n1\n"[..], 1),
            (b"block\nx\n", 2),
            (b"block,kind\n1,read\n2,eaten\n", 3),
        ] {
            match imported(|writer| read_csv(text, writer)) {
                Err(Error::Line { line: found, .. }) => assert_eq!(found, line),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_cut_record_is_refused() {
        assert!(imported(|writer| read_oracle_general(&[0; 48][..], writer)).is_ok());
        assert!(imported(|writer| read_oracle_general(&[0; 47][..], writer)).is_err());
    }

    fn traced(accesses: &[Access]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), 8192).unwrap();
        accesses
            .iter()
            .for_each(|access| writer.push(access).unwrap());
        writer.finish().unwrap()
    }

    proptest! {
        #[test]
        fn csv_comes_back(accesses in accesses(200)) {
            let mut text = Vec::new();
            write_csv(&mut Reader::new(&traced(&accesses)[..]), &mut text).unwrap();
            prop_assert_eq!(all(&imported(|writer| read_csv(&text[..], writer)).unwrap()), accesses);
        }

        #[test]
        fn oracle_general_has_the_same_pages_and_the_next_of_each(blocks in vec((0_u32..3, 0_u64..40), 0..200)) {
            let accesses: Vec<_> = blocks
                .iter()
                .map(|&(relation, block)| Access { stream: Stream { relation, ..Stream::default() }, block, ..Access::default() })
                .collect();
            let trace = traced(&accesses);
            let mut records = Vec::new();
            write_oracle_general(|| Ok(Reader::new(&trace[..])), &mut records).unwrap();
            prop_assert_eq!(records.len(), accesses.len() * 24);
            for (place, record) in records.chunks(24).enumerate() {
                let next = i64::from_le_bytes(record[16..].try_into().unwrap());
                let expected = blocks[place + 1..].iter().position(|other| *other == blocks[place]);
                prop_assert_eq!(next, expected.map_or(-1, |more| (place + 1 + more) as i64));
            }
            let again = all(&imported(|writer| read_oracle_general(&records[..], writer)).unwrap());
            let mut numbers = HashMap::new();
            for (access, page) in again.iter().zip(&blocks) {
                prop_assert_eq!(*numbers.entry(*page).or_insert(access.block), access.block);
            }
        }

        #[test]
        fn iologs_come_back(blocks in vec((0_u32..3, 0_u64..1 << 40, any::<bool>()), 0..100)) {
            let accesses: Vec<_> = blocks
                .iter()
                .map(|&(relation, block, write)| Access {
                    stream: Stream { relation, ..Stream::default() },
                    block,
                    kind: if write { Kind::Extend } else { Kind::Read },
                    ..Access::default()
                })
                .collect();
            let mut text = Vec::new();
            write_iolog(&mut Reader::new(&traced(&accesses)[..]), &mut text).unwrap();
            let again = all(&imported(|writer| read_iolog(&text[..], writer, Import { page_size: 8192 })).unwrap());
            prop_assert_eq!(
                again.iter().map(|access| (access.block, access.kind)).collect::<Vec<_>>(),
                accesses.iter().map(|access| (access.block, access.kind)).collect::<Vec<_>>()
            );
        }

        #[test]
        fn any_text_is_imported_or_refused(text in "(fio version [23] iolog\n|block,kind\n)?([0-9a-z,+ \n]|8,0 1 1 0\\.5 7 Q R 9 \\+ 8\n|/a read 1 9999999\n){0,60}") {
            let _ = imported(|writer| read_csv(text.as_bytes(), writer));
            let _ = imported(|writer| read_iolog(text.as_bytes(), writer, IMPORT));
            let _ = imported(|writer| read_blktrace(text.as_bytes(), writer, IMPORT));
        }

        #[test]
        fn any_import_is_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
            let _ = imported(|writer| read_csv(&bytes[..], writer));
            let _ = imported(|writer| read_iolog(&[b"fio version 3 iolog\n", &bytes[..]].concat()[..], writer, IMPORT));
            let _ = imported(|writer| read_blktrace(&bytes[..], writer, IMPORT));
            let _ = imported(|writer| read_oracle_general(&bytes[..], writer));
        }
    }
}
