//! The facts in a trace, apart from its accesses. An entry is a tag, its length and its fields, so that readers can
//! skip tags of later versions.

use super::{
    Error,
    bytes::{Cursor, put_number, put_text},
};

/// A relation as the catalog describes it. Zero stands for an unknown value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relation {
    /// The tablespace's OID.
    pub space: u32,
    /// The database's OID.
    pub database: u32,
    /// pg_class.relfilenode.
    pub relation: u32,
    /// pg_class.relkind: `r`, `i`, `t` …
    pub kind: u8,
    /// Blocks of the main fork when the trace began.
    pub blocks: u64,
    /// pg_class.reltuples.
    pub tuples: u64,
    /// Bytes of a tuple with its header, on average.
    pub tuple_bytes: u32,
    /// In percent.
    pub fillfactor: u32,
    /// Only with `--names`.
    pub name: Option<String>,
}

/// What was written to the WAL in an interval. Zero stands for an unknown value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wal {
    /// Microseconds since the trace began.
    pub from: u64,
    /// The end of the interval.
    pub until: u64,
    /// The kind of records: resource manager and type, as pg_walinspect writes them (`Heap/UPDATE`); empty for all.
    pub kind: String,
    /// The number of records.
    pub records: u64,
    /// The number of full-page images in them.
    pub images: u64,
    /// Bytes of the records, with their images.
    pub bytes: u64,
    /// Bytes of the images, as they are in the WAL.
    pub image_bytes: u64,
    /// The growth of the WAL: records, their alignment, and page headers.
    pub growth: u64,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A checkpoint began.
    CheckpointStart,
    /// A checkpoint ended; the count is the buffers that it wrote.
    CheckpointEnd,
    /// The number of transactions that ended since the previous event.
    Transactions,
    /// The number of accesses known to be lost since the previous event.
    Lost,
    /// Bytes read from the device since the previous event.
    DeviceRead,
    /// Bytes written to the device since the previous event.
    DeviceWritten,
    /// Nothing was recorded from here on for this many microseconds.
    Pause,
    /// A kind of a later version.
    Other(u8),
}

/// Something that happened at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Microseconds since the trace began.
    pub time: u64,
    /// The kind.
    pub kind: EventKind,
    /// The count.
    pub count: u64,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fact {
    /// A property of the trace itself: `started`, `recorder`, `server_version` …
    Property(String, String),
    /// A setting of the server.
    Setting(String, String),
    /// A relation.
    Relation(Relation),
    /// An event.
    Event(Event),
    /// An interval of WAL.
    Wal(Wal),
}

impl EventKind {
    const fn number(self) -> u8 {
        match self {
            Self::CheckpointStart => 1,
            Self::CheckpointEnd => 2,
            Self::Transactions => 3,
            Self::Lost => 4,
            Self::DeviceRead => 5,
            Self::DeviceWritten => 6,
            Self::Pause => 7,
            Self::Other(number) => number,
        }
    }

    const fn of(number: u8) -> Self {
        match number {
            1 => Self::CheckpointStart,
            2 => Self::CheckpointEnd,
            3 => Self::Transactions,
            4 => Self::Lost,
            5 => Self::DeviceRead,
            6 => Self::DeviceWritten,
            7 => Self::Pause,
            other => Self::Other(other),
        }
    }

    /// Its name in tables and JSON; None for a kind of a later version.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::CheckpointStart => Some("checkpoint_start"),
            Self::CheckpointEnd => Some("checkpoint_end"),
            Self::Transactions => Some("transactions"),
            Self::Lost => Some("lost"),
            Self::DeviceRead => Some("device_read_bytes"),
            Self::DeviceWritten => Some("device_written_bytes"),
            Self::Pause => Some("pause_microseconds"),
            Self::Other(_) => None,
        }
    }

    /// The event with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        (1..=7).map(Self::of).find(|kind| kind.name() == Some(name))
    }
}

const PROPERTY: u64 = 1;
const SETTING: u64 = 2;
const RELATION: u64 = 3;
const EVENT: u64 = 4;
const WAL: u64 = 5;

impl Fact {
    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        let mut body = Vec::new();
        let tag = match self {
            Self::Property(name, value) => {
                put_text(&mut body, name);
                put_text(&mut body, value);
                PROPERTY
            }
            Self::Setting(name, value) => {
                put_text(&mut body, name);
                put_text(&mut body, value);
                SETTING
            }
            Self::Relation(relation) => {
                for number in [relation.space, relation.database, relation.relation] {
                    put_number(&mut body, number.into());
                }
                body.push(relation.kind);
                put_number(&mut body, relation.blocks);
                put_number(&mut body, relation.tuples);
                put_number(&mut body, relation.tuple_bytes.into());
                put_number(&mut body, relation.fillfactor.into());
                if let Some(name) = &relation.name {
                    put_text(&mut body, name);
                }
                RELATION
            }
            Self::Event(event) => {
                put_number(&mut body, event.time);
                body.push(event.kind.number());
                put_number(&mut body, event.count);
                EVENT
            }
            Self::Wal(wal) => {
                put_number(&mut body, wal.from);
                put_number(&mut body, wal.until);
                put_text(&mut body, &wal.kind);
                for number in [
                    wal.records,
                    wal.images,
                    wal.bytes,
                    wal.image_bytes,
                    wal.growth,
                ] {
                    put_number(&mut body, number);
                }
                WAL
            }
        };
        put_number(bytes, tag);
        put_number(bytes, body.len() as u64);
        bytes.extend_from_slice(&body);
    }

    /// All entries of a frame whose tags this version knows.
    pub(super) fn all(payload: &[u8]) -> Result<Vec<Self>, Error> {
        let mut cursor = Cursor(payload);
        let mut found = Vec::new();
        while !cursor.is_at_end() {
            let tag = cursor.number()?;
            let length = cursor.number()?;
            let mut body = Cursor(cursor.take(length)?);
            match tag {
                PROPERTY => found.push(Self::Property(body.text()?, body.text()?)),
                SETTING => found.push(Self::Setting(body.text()?, body.text()?)),
                RELATION => found.push(Self::Relation(Relation {
                    space: body.small()?,
                    database: body.small()?,
                    relation: body.small()?,
                    kind: body.byte()?,
                    blocks: body.number()?,
                    tuples: body.number()?,
                    tuple_bytes: body.small()?,
                    fillfactor: body.small()?,
                    name: if body.is_at_end() {
                        None
                    } else {
                        Some(body.text()?)
                    },
                })),
                EVENT => found.push(Self::Event(Event {
                    time: body.number()?,
                    kind: EventKind::of(body.byte()?),
                    count: body.number()?,
                })),
                WAL => found.push(Self::Wal(Wal {
                    from: body.number()?,
                    until: body.number()?,
                    kind: body.text()?,
                    records: body.number()?,
                    images: body.number()?,
                    bytes: body.number()?,
                    image_bytes: body.number()?,
                    growth: body.number()?,
                })),
                _ => {}
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_later_tags_are_passed_over() {
        let facts = vec![
            Fact::Property("started".into(), "0".into()),
            Fact::Setting("shared_buffers".into(), "16384".into()),
            Fact::Relation(Relation {
                space: 1663,
                database: 5,
                relation: 16384,
                kind: b'r',
                blocks: 1 << 40,
                tuples: 7,
                tuple_bytes: 121,
                fillfactor: 100,
                name: Some("pgbench_accounts".into()),
            }),
            Fact::Relation(Relation::default()),
            Fact::Event(Event {
                time: u64::MAX,
                kind: EventKind::Lost,
                count: 3,
            }),
            Fact::Wal(Wal {
                from: 1,
                until: u64::MAX,
                kind: "Heap/HOT_UPDATE".into(),
                records: 4,
                images: 3,
                bytes: 30_000,
                image_bytes: 24_000,
                growth: 0,
            }),
        ];
        let mut bytes = vec![99, 2, 1, 1];
        for fact in &facts {
            fact.put(&mut bytes);
        }
        assert_eq!(Fact::all(&bytes).unwrap(), facts);
        assert!(Fact::all(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn every_event_is_found_by_its_name() {
        for number in 1..=7 {
            let kind = EventKind::of(number);
            assert_eq!(EventKind::named(kind.name().unwrap()), Some(kind));
            assert_eq!(kind.number(), number);
        }
        assert_eq!(EventKind::named("x"), None);
    }
}
