use std::{
    collections::HashMap,
    io::Read,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    thread,
};

use super::{pages::Numbers, parts::Sample, visits::Visits};
use crate::trace::{
    self, Accesses, Event, Fact, Item, Kind, MOST_IN_A_BLOCK, Missing, Reader, Relation, Stream,
};

/// Frames that are simulated together, which reduces the time that the threads wait for each other.
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
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

/// Accesses in the order of the trace; streams, pages and backends are numbered without gaps.
#[derive(Default)]
pub struct Batch {
    /// Numbers of pages; shifted right by k, those of pages 2^k times as large.
    pub page: Vec<u32>,
    /// Numbers of streams.
    pub stream: Vec<u32>,
    /// Numbers of backends.
    pub backend: Vec<u32>,
    /// Kind and strategy.
    pub how: Vec<u8>,
    /// Microseconds since the trace began.
    pub time: Vec<u64>,
    /// The backend's visits of pages so far, including pages outside the sample: successive accesses of one page are
    /// one visit.
    pub visit: Vec<u32>,
    /// The scans that the backend has begun so far, including those of pages outside the sample.
    pub scan: Vec<u32>,
    /// Accesses of the trace so far, including those outside the sample.
    pub ordinal: Vec<u64>,
    /// By stream: its number of blocks of the trace's size, as far as it is known.
    pub blocks: Vec<u64>,
    /// Groups of 64 neighbouring blocks that have got numbers since this batch: their stream, and the first block
    /// divided by 64. Their numbers follow those of earlier batches.
    pub new_chunks: Vec<(u32, u64)>,
    /// Whether it contains changes, which follow the access of the page.
    pub has_changes: bool,
    /// Events before these accesses.
    pub events: Vec<Event>,
}

/// A participant in a simulation.
pub trait Consumer: Send {
    /// Processes the next accesses.
    fn consume(&mut self, batch: &Batch);
}

/// The totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Accesses of pages, without changes.
    pub accesses: u64,
    /// Changes of pages.
    pub changes: u64,
    /// What is missing from the trace.
    pub missing: Missing,
    /// The trace's page size in bytes.
    pub page_size: u32,
}

impl Batch {
    fn clear(&mut self) {
        self.page.clear();
        self.stream.clear();
        self.backend.clear();
        self.how.clear();
        self.time.clear();
        self.visit.clear();
        self.scan.clear();
        self.ordinal.clear();
        self.new_chunks.clear();
        self.events.clear();
        self.has_changes = false;
    }
}

struct Preparing {
    sample: Sample,
    /// By replicate.
    numbers: Vec<Numbers>,
    visits: Visits,
    backends: HashMap<u32, u32>,
    blocks: Vec<u64>,
    /// The size of a relation's main fork before its first access, from facts.
    known_blocks: HashMap<Stream, u64>,
    accesses: Accesses,
    /// Events before the part that has not been read.
    events: Vec<Event>,
    totals: Totals,
}

impl Preparing {
    fn new(sample: Sample) -> Self {
        Self {
            sample,
            numbers: (0..sample.replicates())
                .map(|_| Numbers::default())
                .collect(),
            visits: Visits::default(),
            backends: HashMap::new(),
            blocks: Vec::new(),
            known_blocks: HashMap::new(),
            accesses: Accesses::default(),
            events: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Fills the batches, one for each replicate, with the next frames. Returns whether there are any.
    fn next<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        batches: &mut [Batch],
    ) -> Result<bool, Error> {
        batches.iter_mut().for_each(Batch::clear);
        let mut events = std::mem::take(&mut self.events);
        let mut many = 0;
        while many <= (FRAMES - 1) * MOST_IN_A_BLOCK {
            match reader.next(&mut self.accesses)? {
                Some(Item::Accesses) => {
                    many += self.accesses.len();
                    self.add(batches)?;
                }
                Some(Item::Facts(facts)) => {
                    self.learn(facts);
                    if many == 0 {
                        events.append(&mut self.events);
                    } else if !self.events.is_empty() {
                        break; // these events precede the next batch
                    }
                }
                None => break,
            }
        }
        let more = many > 0 || !events.is_empty();
        for (replicate, batch) in batches.iter_mut().enumerate() {
            let lengths = (0_u32..).zip(&self.blocks);
            batch.blocks.clear();
            batch.blocks.extend(
                lengths.map(|(stream, &blocks)| self.sample.length(stream, blocks, replicate)),
            );
            batch.events.extend_from_slice(&events);
            self.numbers[replicate].take_new(&mut batch.new_chunks);
        }
        self.totals.missing = reader.missing();
        self.totals.page_size = reader.page_size().unwrap_or(0);
        Ok(more)
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

    fn add(&mut self, batches: &mut [Batch]) -> Result<(), Error> {
        let accesses = &self.accesses;
        let everywhere = &mut self.numbers;
        let streams: Vec<u32> = accesses
            .streams
            .iter()
            .map(|&stream| {
                // The same number in every replicate.
                let numbered = everywhere.iter_mut().map(|numbers| numbers.stream(stream));
                numbered.max().unwrap_or(0)
            })
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
        for index in 0..accesses.len() {
            let (stream, block) = (
                streams[accesses.stream[index] as usize],
                accesses.block[index],
            );
            let (backend, how) = (
                backends[accesses.backend[index] as usize],
                accesses.how[index],
            );
            let blocks = &mut self.blocks[stream as usize];
            *blocks = (*blocks).max(block.saturating_add(1));
            let (visit, scan) = self.visits.of(backend, (stream, block), how);
            let changes = is_change(how);
            self.totals.changes += u64::from(changes);
            self.totals.accesses += u64::from(!changes);
            let Some((replicate, block)) = self.sample.place(stream, block) else {
                continue;
            };
            let page = self.numbers[replicate].page(stream, block);
            let batch = &mut batches[replicate];
            batch.page.push(page.ok_or(Error::TooManyPages)?);
            batch.stream.push(stream);
            batch.backend.push(backend);
            batch.how.push(how);
            batch.time.push(accesses.time[index]);
            batch.visit.push(visit);
            batch.scan.push(scan);
            batch.ordinal.push(self.totals.accesses);
            batch.has_changes |= changes;
        }
        Ok(())
    }
}

/// Whether it is no access of its own, but a change of a page that was accessed.
#[inline]
pub(super) const fn is_change(how: u8) -> bool {
    Kind::of(how).changes()
}

/// How a page of 2^level blocks is accessed when one of its blocks is: a new block that is not the page's first is in a
/// page that already exists.
#[inline]
pub(super) fn merged(how: u8, block: u32, level: u32) -> u8 {
    if block & ((1 << level) - 1) != 0 && Kind::of(how) == Kind::Extend {
        (how & !15) | Kind::Read.number()
    } else {
        how
    }
}

/// Runs a trace through all consumers, in one pass, on this many threads. The next accesses are read meanwhile.
///
/// `goes_on` regularly gets the accesses so far, and stops the run by returning false.
///
/// # Errors
/// The trace cannot be read, it touches too many pages, or it was stopped.
pub fn run<R: Read + Send, C: Consumer>(
    reader: &mut Reader<R>,
    consumers: &mut [C],
    threads: NonZeroUsize,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Totals, Error> {
    run_sampled(reader, Sample::default(), consumers, threads, goes_on)
}

/// As `run` with a sample of the trace: with n replicates, each consumer gets the one of its index modulo n.
///
/// # Errors
/// As `run`.
pub fn run_sampled<R: Read + Send, C: Consumer>(
    reader: &mut Reader<R>,
    sample: Sample,
    consumers: &mut [C],
    threads: NonZeroUsize,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Totals, Error> {
    let mut preparing = Preparing::new(sample);
    // One thread prepares; more than one per consumer in addition would be idle.
    let threads = threads.get().min(consumers.len() + 1);
    let empty = || -> Vec<Batch> { (0..sample.replicates()).map(|_| Batch::default()).collect() };
    let (mut current, mut next) = (empty(), empty());
    let mut more = preparing.next(reader, &mut current)?;
    while more {
        if !goes_on(preparing.totals.accesses) {
            return Err(Error::Stopped);
        }
        let queue = Mutex::new(consumers.iter_mut().zip(current.iter().cycle()));
        let work = || {
            loop {
                let taken = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                match taken {
                    Some((consumer, batch)) => consumer.consume(batch),
                    None => break,
                }
            }
        };
        more = thread::scope(|scope| {
            for _ in 1..threads {
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
