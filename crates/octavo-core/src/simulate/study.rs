use super::{
    Batch, BufferCounts, BufferManager, Cache, Consumer, Curve, SampledDistances, StackDistances,
    feed::{is_change, merged},
};
use crate::trace::EventKind;

/// The number of pages that are prefetched together before they are accessed one after another: their memory latencies
/// overlap.
const AHEAD: usize = 64;

/// Reads entries of a table, so that they are in the CPU's cache.
#[inline]
pub(super) fn touch(table: &[u32], pages: impl Iterator<Item = u32>) {
    let sum = pages.fold(0_u32, |sum, page| {
        sum ^ table.get(page as usize).copied().unwrap_or(0)
    });
    std::hint::black_box(sum);
}

/// How the trace's pages are converted to pages of another size.
pub enum Pages {
    /// 2^k neighbours are one page.
    Merged(u32),
    /// Each is this many pages, of which an access needs one: a different one each time, which spreads accesses as far
    /// as possible.
    Split {
        /// At most 32.
        parts: u8,
        /// By page: the next part.
        turns: Vec<u8>,
    },
}

impl Pages {
    /// Pages that are a fraction of those of the trace.
    #[must_use]
    pub const fn split(parts: u8) -> Self {
        Self::Split {
            parts,
            turns: Vec::new(),
        }
    }

    /// Hot pages have at least the trace's size: split pages have none.
    fn look_ahead(&self, batch: &Batch, stack: &mut SampledDistances) {
        if let Self::Merged(level) = self {
            stack.look_ahead(batch.page.iter().map(|&page| page >> level));
        }
    }

    fn each(&mut self, batch: &Batch, mut then: impl FnMut(u32)) {
        let mut shifted = |level: u32| {
            if batch.has_changes {
                for (&page, &how) in batch.page.iter().zip(&batch.how) {
                    if !is_change(how) {
                        then(page >> level);
                    }
                }
            } else {
                for &page in &batch.page {
                    then(page >> level);
                }
            }
        };
        match self {
            Self::Merged(level) => shifted(*level),
            Self::Split { parts, turns } => {
                for (&page, &how) in batch.page.iter().zip(&batch.how) {
                    if is_change(how) {
                        continue;
                    }
                    let number = page as usize;
                    if number >= turns.len() {
                        turns.resize((number + 1).next_power_of_two(), 0);
                    }
                    let turn = turns[number];
                    turns[number] = if turn + 1 == *parts { 0 } else { turn + 1 };
                    then(page * u32::from(*parts) + u32::from(turn));
                }
            }
        }
    }
}

/// A cache or a curve at one page size.
pub enum Study {
    /// LRU of every capacity, exactly.
    Exact(Pages, StackDistances),
    /// LRU of every capacity, from a sample of the pages.
    Sampled(Pages, SampledDistances),
    /// PostgreSQL's buffer manager; pages of 2^k blocks.
    Buffers(u32, BufferManager),
    /// A textbook policy, and its hits.
    Policy(Pages, Box<dyn Cache + Send>, u64),
}

impl Study {
    /// The curve of `Exact` and `Sampled`.
    #[must_use]
    pub fn curve(&self, accesses: u64) -> Option<Curve> {
        match self {
            Self::Exact(_, stack) => Some(stack.curve(accesses)),
            Self::Sampled(_, stack) => Some(stack.curve(accesses)),
            _ => None,
        }
    }

    /// The hits of `Policy`.
    #[must_use]
    pub const fn hits(&self) -> Option<u64> {
        match self {
            Self::Policy(_, _, hits) => Some(*hits),
            _ => None,
        }
    }

    /// The counts of `Buffers`.
    #[must_use]
    pub const fn counts(&self) -> Option<BufferCounts> {
        match self {
            Self::Buffers(_, manager) => Some(manager.counts()),
            _ => None,
        }
    }
}

impl Consumer for Study {
    fn consume(&mut self, batch: &Batch) {
        match self {
            Self::Exact(Pages::Merged(level), stack) if !batch.has_changes => {
                for pages in batch.page.chunks(AHEAD) {
                    stack.touch(pages.iter().map(|page| page >> *level));
                    for page in pages {
                        stack.access(page >> *level);
                    }
                }
            }
            Self::Exact(pages, stack) => pages.each(batch, |page| {
                stack.access(page);
            }),
            Self::Sampled(pages, stack) => {
                pages.look_ahead(batch, stack);
                pages.each(batch, |page| stack.access(page));
            }
            Self::Policy(pages, cache, hits) => {
                pages.each(batch, |page| *hits += u64::from(cache.access(page)))
            }
            Self::Buffers(level, manager) => {
                for event in &batch.events {
                    if event.kind == EventKind::CheckpointStart {
                        manager.begin_checkpoint();
                    }
                }
                for first in (0..batch.page.len()).step_by(AHEAD) {
                    let places = first..(first + AHEAD).min(batch.page.len());
                    manager.touch(batch.page[places.clone()].iter().map(|page| page >> *level));
                    for place in places {
                        let stream = batch.stream[place];
                        let relation = batch.blocks[stream as usize] >> *level;
                        let page = batch.page[place] >> *level;
                        manager.access(
                            page,
                            batch.backend[place],
                            batch.scan[place],
                            merged(batch.how[place], batch.page[place], *level),
                            relation,
                        );
                    }
                }
            }
        }
    }
}
