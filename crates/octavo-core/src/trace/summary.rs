use std::{
    collections::{HashMap, HashSet},
    io::Read,
    thread,
};

use super::{
    Accesses, Error, Event, EventKind, Fact, Kind, Missing, Reader, Stream,
    reader::{Encoded, Found},
};

/// The number of frames that are decoded together, one after another on each CPU; fewer if they are large.
const FRAMES: usize = 32;
const MOST_BYTES: usize = 16 << 20;
/// The limit of facts that a summary keeps, and of bytes of text in them. A recorder writes one for each relation and
/// setting, and about one per second for WAL.
const MOST_FACTS: Room = Room {
    facts: 1 << 20,
    text: 64 << 20,
};

/// Limits for the number of facts, and for their bytes of text.
#[derive(Clone, Copy)]
struct Room {
    facts: usize,
    text: usize,
}

impl Room {
    fn take(&mut self, fact: &Fact) -> Result<(), Error> {
        let left = self
            .facts
            .checked_sub(1)
            .zip(self.text.checked_sub(text_of(fact)));
        let (facts, text) =
            left.ok_or(Error::TooManyFacts(MOST_FACTS.facts, MOST_FACTS.text >> 20))?;
        *self = Self { facts, text };
        Ok(())
    }
}

/// The bytes of its text.
fn text_of(fact: &Fact) -> usize {
    match fact {
        Fact::Property(name, value) | Fact::Setting(name, value) => name.len() + value.len(),
        Fact::Relation(relation) => relation.name.as_ref().map_or(0, String::len),
        Fact::Wal(stretch) => stretch.kind.len(),
        Fact::Event(_) => 0,
    }
}

/// The summary of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// In bytes.
    pub page_size: u32,
    /// By kind: read, extend, change, full-page image, read of a page that was pinned.
    pub accesses: [u64; 5],
    /// Accesses of each stream, changes not counted; most accesses first.
    pub streams: Vec<(Stream, u64)>,
    /// The number of backends.
    pub backends: u64,
    /// Microseconds from the trace's beginning to its first and last access.
    pub times: Option<(u64, u64)>,
    /// All facts except events, in order.
    pub facts: Vec<Fact>,
    /// By kind: the number of events, and the sum of their counts.
    pub events: HashMap<EventKind, (u64, u64)>,
    /// What is missing.
    pub missing: Missing,
}

/// The summary of the accesses of some frames.
#[derive(Default)]
struct Counts {
    accesses: [u64; 5],
    streams: HashMap<Stream, u64>,
    backends: HashSet<u32>,
    times: Option<(u64, u64)>,
}

impl Counts {
    fn add(&mut self, accesses: &Accesses) {
        self.backends.extend(&accesses.backends);
        let mut counts = vec![0; accesses.streams.len()];
        for (&stream, &how) in accesses.stream.iter().zip(&accesses.how) {
            let kind = Kind::of(how);
            self.accesses[usize::from(kind.number())] += 1;
            counts[stream as usize] += u64::from(!kind.changes());
        }
        for (&stream, count) in accesses.streams.iter().zip(counts) {
            *self.streams.entry(stream).or_default() += count;
        }
        let least = accesses.time.iter().copied().min();
        let most = accesses.time.iter().copied().max();
        self.widen(least.zip(most));
    }

    fn widen(&mut self, times: Option<(u64, u64)>) {
        if let Some((least, most)) = times {
            let (before, after) = self.times.unwrap_or((least, most));
            self.times = Some((before.min(least), after.max(most)));
        }
    }

    fn merge(&mut self, other: Self) {
        for (sum, more) in self.accesses.iter_mut().zip(other.accesses) {
            *sum += more;
        }
        for (stream, count) in other.streams {
            *self.streams.entry(stream).or_default() += count;
        }
        self.backends.extend(other.backends);
        self.widen(other.times);
    }

    /// Of these frames, and the frames that cannot be decoded.
    fn of(frames: &[Encoded]) -> (Self, Vec<&Encoded>) {
        let mut accesses = Accesses::default();
        let mut found = Self::default();
        let mut bad = Vec::new();
        for frame in frames {
            match frame.decode(&mut accesses) {
                Ok(()) => found.add(&accesses),
                Err(_) => bad.push(frame),
            }
        }
        (found, bad)
    }
}

/// Reads a whole trace, its frames on all CPUs. If `goes_on` returns false, it ends early, with the summary of what was
/// read.
///
/// # Errors
/// If the trace cannot be read, or has more facts than a summary keeps.
pub fn summarize<R: Read>(
    reader: &mut Reader<R>,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Summary, Error> {
    summarize_within(reader, goes_on, MOST_FACTS)
}

fn summarize_within<R: Read>(
    reader: &mut Reader<R>,
    goes_on: &mut dyn FnMut(u64) -> bool,
    mut room: Room,
) -> Result<Summary, Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut found = Summary::default();
    let mut counts = Counts::default();
    let mut frames: Vec<Encoded> = Vec::new();
    let mut more = true;
    while more {
        frames.clear();
        let mut bytes = 0;
        while frames.len() < FRAMES && bytes < MOST_BYTES {
            match reader.next_encoded()? {
                Some(Found::Accesses(frame)) => {
                    bytes += frame.payload.len();
                    frames.push(frame);
                }
                Some(Found::Facts(facts)) => found.learn(facts, &mut room)?,
                None => {
                    more = false;
                    break;
                }
            }
        }
        let parts = frames.chunks(frames.len().div_ceil(threads).max(1));
        let parts = thread::scope(|scope| {
            let running: Vec<_> = parts.map(|part| scope.spawn(|| Counts::of(part))).collect();
            running
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect::<Vec<_>>()
        });
        for part in parts {
            let (part, bad) = part.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            counts.merge(part);
            bad.into_iter().for_each(|frame| reader.miss(frame));
        }
        if !goes_on(counts.accesses.iter().sum()) {
            break;
        }
    }
    if !more && !reader.has_frames() {
        return Err(Error::NoTrace);
    }
    found.accesses = counts.accesses;
    found.times = counts.times;
    found.page_size = reader.page_size().unwrap_or(0);
    found.missing = reader.missing();
    found.backends = counts.backends.len() as u64;
    found.streams = counts.streams.into_iter().collect();
    found
        .streams
        .sort_unstable_by_key(|&(stream, count)| (std::cmp::Reverse(count), stream));
    Ok(found)
}

impl Summary {
    fn learn(&mut self, facts: Vec<Fact>, room: &mut Room) -> Result<(), Error> {
        for fact in facts {
            if let Fact::Event(Event { kind, count, .. }) = fact {
                let (times, sum) = self.events.entry(kind).or_default();
                *times += 1;
                *sum = sum.saturating_add(count);
            } else {
                room.take(&fact)?;
                self.facts.push(fact);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Item,
            frame::{Frame, FrameKind},
            test_trace::traced,
        },
        *,
    };

    #[test]
    fn a_summary_counts_everything() {
        let found = summarize(&mut Reader::new(&traced()[..]), &mut |_| true).unwrap();
        assert_eq!(
            (found.page_size, found.accesses, found.backends),
            (8192, [90, 0, 10, 0, 0], 3)
        );
        assert_eq!(found.times, Some((0, 99)));
        assert_eq!(
            found
                .streams
                .iter()
                .map(|each| (each.0.relation, each.1))
                .collect::<Vec<_>>(),
            [(1, 65), (2, 25)]
        );
        assert_eq!(found.events[&EventKind::Transactions], (2, 10));
        assert_eq!(found.facts.len(), 2);
        assert_eq!(found.missing, Missing::default());
    }

    #[test]
    fn a_summary_keeps_so_many_facts_and_no_more() {
        let room = |facts, text| {
            let trace = traced();
            summarize_within(
                &mut Reader::new(&trace[..]),
                &mut |_| true,
                Room { facts, text },
            )
        };
        let text = "shared_buffers128MBcheckpoint_seconds7".len();
        assert_eq!(room(2, text).unwrap().facts.len(), 2);
        for (facts, text) in [(1, text), (2, text - 1)] {
            let error = room(facts, text).unwrap_err().to_string();
            assert!(
                error.contains("1048576") && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_missing_as_it_is_for_a_reader() {
        let mut bytes = traced();
        bytes.truncate(bytes.len() - 37); // the end is a frame with a payload of one byte
        let mut frame = |kind, count, first, payload: &[u8]| {
            let frame = Frame::of(kind, 8192, count, first, payload).bytes();
            bytes.extend(frame.iter().chain(payload));
        };
        frame(FrameKind::Accesses, 7, 100, &[1, 2, 3]);
        frame(FrameKind::End, 0, 107, &[107]);
        let mut reader = Reader::new(&bytes[..]);
        let mut accesses = Accesses::default();
        let mut read = 0;
        while let Some(item) = reader.next(&mut accesses).unwrap() {
            read += if item == Item::Accesses {
                accesses.len()
            } else {
                0
            };
        }
        let found = summarize(&mut Reader::new(&bytes[..]), &mut |_| true).unwrap();
        assert_eq!(found.accesses.iter().sum::<u64>(), read as u64);
        let missing = Missing {
            accesses: 7,
            bytes: 36 + 3,
            is_cut: false,
        };
        assert_eq!((found.missing, reader.missing()), (missing, missing));
    }

    #[test]
    fn frames_of_which_none_can_be_decoded_are_no_trace() {
        let mut bytes = Frame::of(FrameKind::Accesses, 8192, 13_557, 0, &[0x35])
            .bytes()
            .to_vec();
        bytes.push(0x35);
        let found = summarize(&mut Reader::new(&bytes[..]), &mut |_| true);
        let read = Reader::new(&bytes[..]).next(&mut Accesses::default());
        assert!(matches!(found, Err(Error::NoTrace)));
        assert!(matches!(read, Err(Error::NoTrace)));
    }
}
