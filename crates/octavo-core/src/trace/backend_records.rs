//! Records that the backends of a tracing build append to their own files: pg_trace.h of `octavo build --traced`.

use std::collections::HashMap;

use super::{Access, Event, EventKind, Kind, ProbeLines, Strategy, Stream};

/// Bytes of a record: a block, its kind, and a time that is never zero.
const RECORD: usize = 16;
const STREAM_BITS: u32 = 18;
const CHECKPOINT: u8 = 16;
const WRITTEN: u8 = 17;
const STREAM: u8 = 32;
/// Limits for the relations of all files together, and for pending events: no server has more. Further ones are counted
/// as invalid.
const MOST_NAMED: usize = 1 << 22;
const MOST_EVENTS: usize = 1 << 16;

/// The state of reading the files.
#[derive(Default)]
pub struct BackendRecords {
    /// By file number: tablespace, database and relation.
    streams: HashMap<u64, HashMap<u32, Stream>>,
    named: usize,
    events: Vec<(u64, EventKind, u64)>,
    strays: u64,
}

impl BackendRecords {
    /// Reads the next records of a file, up to the first that has not been written. Returns the number of bytes read.
    pub fn feed(&mut self, file: u64, backend: u32, bytes: &[u8], into: &mut ProbeLines) -> usize {
        let mut taken = 0;
        for record in bytes.chunks_exact(RECORD) {
            let number = |at: usize| {
                u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
            };
            let (block, what, low, high) = (number(0), number(4), number(8), number(12));
            let time = u64::from(high) << 32 | u64::from(low);
            if time == 0 {
                break;
            }
            taken += RECORD;
            let stream = what & ((1 << STREAM_BITS) - 1);
            match (what >> 24) as u8 {
                STREAM => {
                    let found = Stream {
                        space: block,
                        database: high,
                        relation: low,
                        fork: 0,
                    };
                    if self.named < MOST_NAMED {
                        let of_file = self.streams.entry(file).or_default();
                        self.named += usize::from(of_file.insert(stream, found).is_none());
                    } else {
                        self.strays += 1;
                    }
                }
                CHECKPOINT | WRITTEN if self.events.len() >= MOST_EVENTS => self.strays += 1,
                CHECKPOINT => self.events.push((time, EventKind::CheckpointStart, 1)),
                WRITTEN => self
                    .events
                    .push((time, EventKind::CheckpointEnd, block.into())),
                kind => match self.streams.get(&file).and_then(|known| known.get(&stream)) {
                    Some(&known) => into.add(
                        time,
                        Access {
                            time: 0,
                            backend,
                            stream: Stream {
                                fork: (what >> STREAM_BITS & 3) as u8,
                                ..known
                            },
                            block: block.into(),
                            kind: Kind::of(kind),
                            strategy: Strategy::of((what >> 16) as u8 & 0xf0),
                        },
                    ),
                    None => self.strays += 1,
                },
            }
        }
        taken
    }

    /// Ends a file: no more records of it follow.
    pub fn forget(&mut self, file: u64) {
        let known = self.streams.remove(&file);
        self.named -= known.map_or(0, |known| known.len());
    }

    /// Events up to a time in microseconds since `began` (nanoseconds), in order.
    pub fn take_events(&mut self, until: u64, began: u64) -> Vec<Event> {
        self.events.sort_by_key(|event| event.0);
        let micros = |time: u64| time.saturating_sub(began) / 1000;
        let count = self
            .events
            .partition_point(|event| micros(event.0) <= until);
        self.events
            .drain(..count)
            .map(|(time, kind, count)| Event {
                time: micros(time),
                kind,
                count,
            })
            .collect()
    }

    /// The number of records of unnamed relations since the last call, which mean a damaged file.
    pub fn take_strays(&mut self) -> u64 {
        std::mem::take(&mut self.strays)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{BackendRecords, EventKind, Kind, ProbeLines, Strategy};

    fn record(block: u32, kind: u32, rest: u32, time: u64) -> Vec<u8> {
        let mut bytes = block.to_le_bytes().to_vec();
        bytes.extend((kind << 24 | rest).to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes
    }

    #[test]
    fn records_of_backends_are_accesses_in_the_order_of_time() {
        let (mut records, mut lines) = (BackendRecords::default(), ProbeLines::default());
        let named = record(1663, 32, 7, 5 << 32 | 16384);
        let first = [
            named.clone(),
            record(12, 0, 3 << 20 | 7, 3000),
            record(12, 4, 7, 4800),
            record(12, 2, 7, 5000),
            record(0, 16, 0, 5500),
            record(9, 17, 0, 6000),
            record(0, 0, 0, 0),
            record(1, 0, 7, 9),
        ];
        assert_eq!(records.feed(1, 100, &first.concat(), &mut lines), 6 * 16);
        let second = [
            named,
            record(40, 1, 2 << 18 | 7, 4000),
            record(1, 0, 8, 4500),
        ];
        assert_eq!(records.feed(2, 200, &second.concat(), &mut lines), 3 * 16);
        assert_eq!((records.take_strays(), records.take_strays()), (1, 0));
        records.forget(1);
        assert_eq!(records.feed(1, 100, &record(1, 0, 7, 9), &mut lines), 16);
        assert_eq!((records.take_strays(), records.named), (1, 1));
        let found = lines.take(0, 1000);
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.time, one.backend, one.block, one.kind, one.stream.fork))
            .collect();
        assert_eq!(
            shown,
            [
                (2, 100, 12, Kind::Read, 0),
                (3, 200, 40, Kind::Extend, 2),
                (3, 100, 12, Kind::Pin, 0),
                (4, 100, 12, Kind::Change, 0)
            ]
        );
        let stream = found[0].stream;
        assert_eq!(
            (stream.space, stream.database, stream.relation),
            (1663, 5, 16384)
        );
        assert_eq!(found[0].strategy, Strategy::Vacuum);
        assert_eq!(
            records.take_events(4, 1000)[0].kind,
            EventKind::CheckpointStart
        );
        let last = records.take_events(u64::MAX, 1000);
        assert_eq!(
            (last[0].kind, last[0].count, last[0].time),
            (EventKind::CheckpointEnd, 9, 5)
        );
    }

    #[test]
    fn scans_are_guessed_only_where_none_would_be_said() {
        for (size, expected) in [(100, Strategy::BulkRead), (1000, Strategy::Normal)] {
            let mut records = BackendRecords::default();
            let mut lines = ProbeLines::knowing_scans(500);
            let mut bytes = record(1663, 32, 0, 1);
            bytes.extend((0..size).flat_map(|block| record(block, 0, 0, 1000 + u64::from(block))));
            records.feed(1, 1, &bytes, &mut lines);
            let found = lines.take(0, 0);
            assert!(found.iter().all(|one| one.strategy == expected));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..400)) {
            let (mut records, mut lines) = (BackendRecords::default(), ProbeLines::default());
            prop_assert!(records.feed(0, 0, &bytes, &mut lines) <= bytes.len());
            lines.take(0, 0);
            records.take_events(u64::MAX, 0);
        }
    }
}
