use std::{
    collections::HashMap,
    io::Read,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    thread,
};

use super::pages::Numbers;
use crate::trace::{
    self, Accesses, Event, Fact, Item, Kind, MOST_IN_A_BLOCK, Missing, Reader, Relation, Stream,
};

/// Frames that are simulated together: what the threads wait for each other costs little then.
const FRAMES: usize = 4;

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// More pages than a simulation can number.
    #[error("the trace touches more than 2^27 pages; cut it with octavo trace cut")]
    TooManyPages,
    /// Whoever asked for it does not want it any more.
    #[error("stopped")]
    Stopped,
}

/// Accesses in the order of the trace; streams, pages and backends are numbered without gaps.
#[derive(Default)]
pub struct Batch {
    /// Numbers of pages; shifted right by k those of pages 2^k times as large.
    pub page: Vec<u32>,
    /// Numbers of streams.
    pub stream: Vec<u32>,
    /// Numbers of backends.
    pub backend: Vec<u32>,
    /// Kind and strategy.
    pub how: Vec<u8>,
    /// Microseconds since the trace began.
    pub time: Vec<u64>,
    /// By stream: how many blocks of the trace's size it has, as far as is known.
    pub blocks: Vec<u64>,
    /// 64 neighbouring blocks each that have numbers since this batch: their stream, and the first block by 64. Their
    /// numbers follow those of earlier batches.
    pub new_chunks: Vec<(u32, u64)>,
    /// Whether some are changes, which follow the access that brought the page.
    pub has_changes: bool,
    /// What happened before these accesses.
    pub events: Vec<Event>,
}

/// What takes part in a simulation.
pub trait Consumer: Send {
    /// Takes the next accesses.
    fn consume(&mut self, batch: &Batch);
}

/// What went by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Accesses of pages; changes are not among them.
    pub accesses: u64,
    /// Changes of pages.
    pub changes: u64,
    /// What of the trace is missing.
    pub missing: Missing,
    /// The trace's page size in bytes.
    pub page_size: u32,
}

#[derive(Default)]
struct Preparing {
    numbers: Numbers,
    backends: HashMap<u32, u32>,
    blocks: Vec<u64>,
    /// What facts say of a relation's main fork before its first access.
    known_blocks: HashMap<Stream, u64>,
    accesses: Accesses,
    /// Those that come before what was not read yet.
    events: Vec<Event>,
    totals: Totals,
}

impl Preparing {
    /// Fills the batch with the next frames. Returns whether there are any.
    fn next<R: Read>(&mut self, reader: &mut Reader<R>, batch: &mut Batch) -> Result<bool, Error> {
        batch.page.clear();
        batch.stream.clear();
        batch.backend.clear();
        batch.how.clear();
        batch.time.clear();
        batch.new_chunks.clear();
        batch.events.clear();
        batch.events.append(&mut self.events);
        batch.has_changes = false;
        while batch.page.len() <= (FRAMES - 1) * MOST_IN_A_BLOCK {
            match reader.next(&mut self.accesses)? {
                Some(Item::Accesses) => self.add(batch)?,
                Some(Item::Facts(facts)) => {
                    self.learn(facts);
                    if batch.page.is_empty() {
                        batch.events.append(&mut self.events);
                    } else if !self.events.is_empty() {
                        break; // they come before the next batch
                    }
                }
                None => break,
            }
        }
        batch.blocks.clone_from(&self.blocks);
        self.numbers.take_new(&mut batch.new_chunks);
        self.totals.missing = reader.missing();
        self.totals.page_size = reader.page_size().unwrap_or(0);
        Ok(!batch.page.is_empty() || !batch.events.is_empty())
    }

    fn learn(&mut self, facts: Vec<Fact>) {
        for fact in facts {
            match fact {
                Fact::Event(event) => self.events.push(event),
                Fact::Relation(found) => {
                    let Relation {
                        space,
                        database,
                        relation,
                        blocks,
                        ..
                    } = found;
                    self.known_blocks.insert(
                        Stream {
                            space,
                            database,
                            relation,
                            fork: 0,
                        },
                        blocks,
                    );
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let accesses = &self.accesses;
        let numbers = &mut self.numbers;
        let streams: Vec<u32> = accesses
            .streams
            .iter()
            .map(|&stream| numbers.stream(stream))
            .collect();
        for (&number, stream) in streams.iter().zip(&accesses.streams) {
            let number = number as usize;
            if number >= self.blocks.len() {
                self.blocks.resize(number + 1, 0);
                self.blocks[number] = self.known_blocks.get(stream).copied().unwrap_or(0);
            }
        }
        let known = &mut self.backends;
        let backends: Vec<u32> = accesses
            .backends
            .iter()
            .map(|&backend| {
                let next = known.len() as u32;
                *known.entry(backend).or_insert(next)
            })
            .collect();
        batch.backend.extend(
            accesses
                .backend
                .iter()
                .map(|&place| backends[place as usize]),
        );
        batch.how.extend_from_slice(&accesses.how);
        batch.time.extend_from_slice(&accesses.time);
        for (&place, &block) in accesses.stream.iter().zip(&accesses.block) {
            let stream = streams[place as usize];
            batch
                .page
                .push(numbers.page(stream, block).ok_or(Error::TooManyPages)?);
            batch.stream.push(stream);
            let blocks = &mut self.blocks[stream as usize];
            *blocks = (*blocks).max(block.saturating_add(1));
        }
        let changes = accesses.how.iter().filter(|&&how| is_change(how)).count() as u64;
        batch.has_changes |= changes > 0;
        self.totals.changes += changes;
        self.totals.accesses += accesses.len() as u64 - changes;
        Ok(())
    }
}

/// Whether it is no access of its own, but what was done with a page that was accessed.
#[inline]
pub(super) const fn is_change(how: u8) -> bool {
    Kind::of(how).changes()
}

/// Runs a trace through all of them, one pass, on so many threads. The next accesses are read meanwhile.
///
/// `goes_on` is told the accesses so far now and then, and stops it by returning false.
///
/// # Errors
/// The trace cannot be read, it touches too many pages, or it was stopped.
pub fn run<R: Read + Send, C: Consumer>(
    reader: &mut Reader<R>,
    consumers: &mut [C],
    threads: NonZeroUsize,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Totals, Error> {
    let mut preparing = Preparing::default();
    let (mut current, mut next) = (Batch::default(), Batch::default());
    let mut more = preparing.next(reader, &mut current)?;
    while more {
        if !goes_on(preparing.totals.accesses) {
            return Err(Error::Stopped);
        }
        let queue = Mutex::new(consumers.iter_mut());
        let work = || {
            loop {
                let taken = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                match taken {
                    Some(consumer) => consumer.consume(&current),
                    None => break,
                }
            }
        };
        more = thread::scope(|scope| {
            for _ in 1..threads.get() {
                scope.spawn(work);
            }
            let found = preparing.next(reader, &mut next);
            work();
            found
        })?;
        std::mem::swap(&mut current, &mut next);
    }
    Ok(preparing.totals)
}
