//! Converts bpftrace's output for PostgreSQL's probes to accesses.

use std::collections::HashMap;

use super::{Access, Kind, Strategy, Stream};

/// The number of consecutive blocks from which on a backend's reads are a scan.
const SCAN: usize = 64;
/// The most unknown lines that are kept for display.
const MOST_NOTES: usize = 20;
/// The most blocks by which a relation grows at once.
const MOST_AT_ONCE: u64 = 1024;
/// The most accesses that wait for earlier ones of other backends. If there are more, or times are impossible, their
/// order is left as it is.
const MOST_PENDING: usize = 1 << 23;
const LONGEST_LINE: usize = 4096;
/// The block number of a page whose number the probe does not report: P_NEW.
const NEW_BLOCK: u64 = u32::MAX as u64;

/// Lines `nanoseconds pid fork block tablespace database relation backend extended`, in any order: each CPU has a
/// buffer of its own.
pub struct ProbeLines {
    partial: Vec<u8>,
    pending: Vec<(u64, Access)>,
    lost: u64,
    notes: Vec<String>,
    /// By stream, the highest block so far.
    highest: HashMap<Stream, u64>,
    /// For larger relations scans are known, and not guessed from consecutive blocks.
    most_guessed: u64,
    /// The last access of each backend, if pinned pages are guessed.
    last: Option<HashMap<u32, (Stream, u64)>>,
}

impl Default for ProbeLines {
    fn default() -> Self {
        Self {
            partial: Vec::new(),
            pending: Vec::new(),
            lost: 0,
            notes: Vec::new(),
            highest: HashMap::new(),
            most_guessed: u64::MAX,
            last: Some(HashMap::new()),
        }
    }
}

impl ProbeLines {
    /// For a server that reports which pages were pinned, and the strategy of each access except scans of relations up
    /// to this many blocks.
    #[must_use]
    pub fn knowing_scans(most_guessed: u64) -> Self {
        Self {
            most_guessed,
            last: None,
            ..Self::default()
        }
    }

    /// Adds an access at a time in nanoseconds.
    pub(super) fn add(&mut self, time: u64, access: Access) {
        self.pending.push((time, access));
    }

    /// Adds the next part of the output, which may end within a line.
    pub fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            if let Some((b'\n', line)) = part.split_last() {
                if self.partial.is_empty() {
                    self.line(line);
                } else {
                    self.partial.extend_from_slice(line);
                    let line = std::mem::take(&mut self.partial);
                    self.line(&line);
                }
            } else if self.partial.len() + part.len() <= LONGEST_LINE {
                self.partial.extend_from_slice(part);
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        let mut words = line
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty());
        let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<i64>().ok();
        let mut fields = [0; 9];
        for field in &mut fields {
            match number() {
                Some(found) => *field = found,
                None => return self.other(line),
            }
        }
        let [
            time,
            pid,
            fork,
            block,
            space,
            database,
            relation,
            backend,
            extend,
        ] = fields;
        // A backend other than -1 is that of a temporary table, whose pages are not in shared buffers.
        if backend != -1 {
            return;
        }
        let block = u64::from(block as u32);
        let (Ok(time), Ok(fork)) = (u64::try_from(time), u8::try_from(fork)) else {
            return self.other(line);
        };
        let access = Access {
            time: 0,
            backend: pid as u32,
            stream: Stream {
                space: space as u32,
                database: database as u32,
                relation: relation as u32,
                fork,
            },
            block,
            kind: if extend > 0 { Kind::Extend } else { Kind::Read },
            strategy: Strategy::Normal,
        };
        // One probe reports all blocks that were added at once.
        for more in 0..(extend.max(0) as u64).clamp(1, MOST_AT_ONCE) {
            let block = if block == NEW_BLOCK {
                block
            } else {
                block + more
            };
            self.pending.push((time, Access { block, ..access }));
        }
    }

    fn other(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line).trim().to_owned();
        let lost = text
            .strip_prefix("Lost ")
            .and_then(|rest| rest.strip_suffix(" events"));
        match lost.and_then(|count| count.parse::<u64>().ok()) {
            Some(count) => self.lost = self.lost.saturating_add(count),
            None if !text.is_empty() && self.notes.len() < MOST_NOTES => self.notes.push(text),
            None => {}
        }
    }

    /// The accesses up to `keep` nanoseconds before the latest one, in order; times are microseconds since `began`.
    /// Runs of blocks by one backend are marked as scans; the page that a backend accessed last is assumed to be
    /// pinned.
    pub fn take(&mut self, keep: u64, began: u64) -> Vec<Access> {
        self.pending.sort_by_key(|entry| entry.0);
        let until = self
            .pending
            .last()
            .map_or(0, |last| last.0.saturating_sub(keep));
        let count = if self.pending.len() > MOST_PENDING {
            self.pending.len()
        } else {
            self.pending.partition_point(|entry| entry.0 <= until)
        };
        let mut found: Vec<Access> = self
            .pending
            .drain(..count)
            .map(|(time, access)| Access {
                time: time.saturating_sub(began) / 1000,
                ..access
            })
            .collect();
        found.retain_mut(|access| self.number(access));
        if let Some(last) = &mut self.last {
            mark_pins(&mut found, last);
        }
        mark_scans(&mut found, |stream| {
            self.highest.get(&stream).copied().unwrap_or(0) < self.most_guessed
        });
        found
    }

    /// Numbers a new block after the highest known one. Returns false if none is known.
    fn number(&mut self, access: &mut Access) -> bool {
        if access.block != NEW_BLOCK {
            let highest = self.highest.entry(access.stream).or_insert(access.block);
            *highest = (*highest).max(access.block);
            return true;
        }
        let known = self.highest.get_mut(&access.stream);
        known.is_some_and(|highest| {
            *highest += 1;
            access.block = *highest;
            true
        })
    }

    /// The number of lost accesses that bpftrace reported since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// The other lines that it printed since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// A backend that reads the page of its last access again had it pinned: an index scan, the executor and heap_update do
/// this in turn with the page of a row.
fn mark_pins(accesses: &mut [Access], last: &mut HashMap<u32, (Stream, u64)>) {
    for access in accesses {
        let before = last.insert(access.backend, (access.stream, access.block));
        if access.kind == Kind::Read && before == Some((access.stream, access.block)) {
            access.kind = Kind::Pin;
        }
    }
}

/// A run of blocks by one backend is a scan, in streams in which scans are to be guessed.
fn mark_scans(accesses: &mut [Access], guesses: impl Fn(Stream) -> bool) {
    let mut runs: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut scans = Vec::new();
    for (place, access) in accesses.iter().enumerate() {
        if access.stream.fork != 0 || access.kind.changes() {
            continue; // a scan reads the visibility map between its pages
        }
        let run = runs.entry(access.backend).or_default();
        let goes_on = run.last().is_some_and(|&last| {
            let before = &accesses[last];
            before.stream == access.stream
                && access.block == before.block + 1
                && access.kind.reads()
        });
        if !goes_on {
            if run.len() >= SCAN {
                scans.append(run);
            }
            run.clear();
        }
        run.push(place);
    }
    scans.extend(runs.into_values().filter(|run| run.len() >= SCAN).flatten());
    for place in scans {
        let access = &mut accesses[place];
        if access.strategy == Strategy::Normal && guesses(access.stream) {
            access.strategy = Strategy::BulkRead;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{Kind, ProbeLines};

    #[test]
    fn lines_are_accesses_in_the_order_of_time() {
        let mut lines = ProbeLines::default();
        lines.feed(b"Attaching 2 probes...\n5000 12 0 7 1663 5 16384 -1 0\n30");
        lines.feed(b"00 11 0 4294967295 1663 5 16384 -1 1\n3000 11 1 2 1663 5 16384 -1 1\nLost 17 events\n");
        lines.feed(b"4000 12 0 9 1663 5 16384 3 0\n9000 12 0 8 1663 5 16384 -1 0\n");
        let found = lines.take(3000, 1000);
        assert_eq!(
            found
                .iter()
                .map(|each| (each.time, each.block))
                .collect::<Vec<_>>(),
            [(2, 2), (4, 7)]
        );
        assert_eq!((found[0].kind, found[0].stream.fork), (Kind::Extend, 1));
        assert_eq!((lines.take_lost(), lines.take_lost()), (17, 0));
        assert_eq!(lines.take_notes(), ["Attaching 2 probes..."]);
        assert_eq!(lines.take(0, 1000).len(), 1);
    }

    #[test]
    fn a_relation_grows_by_several_blocks() {
        let mut lines = ProbeLines::default();
        lines.feed(b"3000 11 0 7 1663 5 16384 -1 3\n");
        let found = lines.take(0, 0);
        assert_eq!(
            found.iter().map(|each| each.block).collect::<Vec<_>>(),
            [7, 8, 9]
        );
        assert!(found.iter().all(|each| each.kind == Kind::Extend));
    }

    #[test]
    fn new_blocks_come_after_the_last_one() {
        let mut lines = ProbeLines::default();
        lines.feed(b"1 11 0 4294967295 1663 5 16384 -1 1\n2 11 0 40 1663 5 16384 -1 0\n");
        lines.feed(b"3 11 0 4294967295 1663 5 16384 -1 2\n");
        let found = lines.take(0, 0);
        assert_eq!(
            found.iter().map(|each| each.block).collect::<Vec<_>>(),
            [40, 41, 42]
        );
    }

    #[test]
    fn blocks_in_a_row_are_a_scan() {
        let mut lines = ProbeLines::default();
        for block in 0..100 {
            lines.feed(format!("{} 11 0 {block} 1663 5 16384 -1 0\n", 10 * block).as_bytes());
            lines.feed(format!("{} 11 2 0 1663 5 16384 -1 0\n", 10 * block + 1).as_bytes());
            lines.feed(
                format!(
                    "{} 12 0 {} 1663 5 16384 -1 0\n",
                    10 * block + 2,
                    block * 7 % 100
                )
                .as_bytes(),
            );
        }
        let found = lines.take(0, 0);
        let scanning = |backend| {
            found
                .iter()
                .filter(move |each| each.backend == backend && each.strategy.number() == 1)
        };
        assert_eq!((scanning(11).count(), scanning(12).count()), (100, 0));
    }

    #[test]
    fn the_page_that_a_backend_accessed_last_is_pinned() {
        let read = |backend: u32, block: u32| format!("1 {backend} 0 {block} 1663 5 16384 -1 0\n");
        let mut lines = ProbeLines::default();
        for (backend, block) in [(11, 7), (12, 7), (11, 7), (11, 8)] {
            lines.feed(read(backend, block).as_bytes());
        }
        let mut kinds: Vec<Kind> = lines.take(0, 0).iter().map(|each| each.kind).collect();
        lines.feed(read(11, 8).as_bytes());
        kinds.extend(lines.take(0, 0).iter().map(|each| each.kind));
        let expected = [Kind::Read, Kind::Read, Kind::Pin, Kind::Read, Kind::Pin];
        assert_eq!(kinds, expected);
        let mut knowing = ProbeLines::knowing_scans(10);
        for _ in 0..2 {
            knowing.feed(read(11, 7).as_bytes());
        }
        assert!(
            knowing
                .take(0, 0)
                .iter()
                .all(|each| each.kind == Kind::Read)
        );
    }

    proptest! {
        #[test]
        fn any_output_is_read(parts in vec(prop_oneof![vec(any::<u8>(), 0..40), "[0-9 \n-]{0,60}".prop_map(String::into_bytes)], 0..20)) {
            let mut lines = ProbeLines::default();
            for part in &parts {
                lines.feed(part);
            }
            lines.take(0, 5);
        }
    }
}
