mod rings;

pub use rings::Rings;

use rings::RingsInUse;

use super::{Filter, study::touch};
use crate::trace::{Kind, Strategy};

const NONE: u32 = u32::MAX;
/// BM_MAX_USAGE_COUNT of PostgreSQL's buf_internals.h.
const MOST_USAGE: u8 = 5;
const USAGE: u8 = 7;
const DIRTY: u8 = 8;
/// Backends whose last page counts as pinned; further ones share an entry.
const PINS: usize = 64;

/// The counters of a buffer manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Accesses of pages that were in a buffer.
    pub hits: u64,
    /// Pages that were read into a buffer.
    pub reads: u64,
    /// New pages.
    pub extends: u64,
    /// Pages that were evicted from a buffer.
    pub evictions: u64,
    /// Evictions of pages that had to be written first.
    pub dirty_evictions: u64,
    /// Pages that checkpoints wrote.
    pub checkpoint_writes: u64,
    /// Pages that the background writer wrote.
    pub writer_writes: u64,
    /// First changes of a page after a checkpoint began, except for pages that are new since then.
    pub full_page_images: u64,
}

/// The state of a buffer for the background writer.
pub(super) enum Looked {
    /// A dirty page without recent use; it is clean now.
    Written(u32),
    /// A clean or empty buffer without recent use.
    Reusable,
    /// A page with recent use.
    Used,
}

/// The outcome of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The page was in a buffer, or was changed, or is not in the sample.
    Nothing,
    /// It was read into a buffer.
    Read {
        /// The page that was written to make room.
        written: Option<u32>,
    },
    /// It is new, and in a buffer.
    Extended {
        /// The page that was written to make room.
        written: Option<u32>,
    },
}

/// PostgreSQL's buffer manager (bufmgr.c and freelist.c of versions 15 to 18): a clock sweep over usage counts of at
/// most 5, and rings for bulk operations. The page that a backend read last counts as pinned.
///
/// Memory: 4 bytes per page number, 5 bytes per used buffer, 4 bytes per dirty buffer. The number of buffers comes from
/// a trace, which may be anybody's.
pub struct BufferManager {
    buffer_of: Vec<u32>,
    count: usize,
    /// By used buffer.
    page_in: Vec<u32>,
    state: Vec<u8>,
    /// Buffers that became dirty since the last checkpoint; some are clean again, or listed twice.
    dirty: Vec<u32>,
    hand: usize,
    /// The number of complete rounds of the hand.
    rounds: u64,
    /// Allocated buffers, without those that rings use again.
    allocations: u64,
    pinned: [u32; PINS],
    pins: usize,
    rings: RingsInUse,
    filter: Option<Filter>,
    counts: BufferCounts,
    checkpoint: u32,
    /// By page: the checkpoint after which it was last changed for the first time, or was new.
    image: Vec<u32>,
}

impl BufferManager {
    /// Takes bytes of shared_buffers and of a page. With a filter it is a miniature of the sampled pages only
    /// (Waldspurger et al., USENIX ATC 2017), smaller by the sampling rate.
    #[must_use]
    pub fn new(shared_buffers: u64, page_size: u64, rings: Rings, filter: Option<Filter>) -> Self {
        let rate = filter.map_or(1.0, Filter::rate);
        let real = (shared_buffers / page_size.max(1)).max(1);
        let buffers = ((real as f64 * rate).round() as usize).clamp(1, NONE as usize - 1);
        Self {
            buffer_of: Vec::new(),
            count: buffers,
            page_in: Vec::new(),
            state: Vec::new(),
            dirty: Vec::new(),
            hand: 0,
            rounds: 0,
            allocations: 0,
            pinned: [NONE; PINS],
            pins: PINS,
            rings: RingsInUse::new(rings, page_size, real, rate),
            filter,
            counts: BufferCounts::default(),
            checkpoint: 1,
            image: Vec::new(),
        }
    }

    /// The same with the number of pinned pages divided by `scale`: for a miniature whose sizes are already scaled.
    #[must_use]
    pub(super) fn miniature(mut self, scale: u64) -> Self {
        self.pins = (PINS / scale as usize).max(1);
        self
    }

    /// The counters so far, in the sample if there is one.
    #[must_use]
    pub const fn counts(&self) -> BufferCounts {
        self.counts
    }

    /// The hit ratio of the accesses of a whole trace; with a filter an estimate, corrected like that of a sampled
    /// curve.
    #[must_use]
    pub fn hit_ratio(&self, accesses: u64) -> f64 {
        let expected = accesses as f64 * self.filter.map_or(1.0, Filter::rate);
        let seen = self.counts.hits + self.counts.reads + self.counts.extends;
        if accesses == 0 {
            0.0
        } else {
            ((self.counts.hits as f64 - (seen as f64 - expected)) / expected).clamp(0.0, 1.0)
        }
    }

    /// The number of buffers.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.count
    }

    /// The number of buffers used so far, which are the first ones.
    pub(super) fn used(&self) -> usize {
        self.page_in.len()
    }

    /// The number of buffers with each usage count, from 0 to 5; the last number is that of buffers never used.
    #[must_use]
    pub fn usage_counts(&self) -> [u64; 7] {
        let mut found = [0; 7];
        for state in &self.state {
            found[usize::from(state & USAGE)] += 1;
        }
        found[6] = (self.count - self.used()) as u64;
        found
    }

    /// A checkpoint begins: all dirty pages are written, and the next change of a page logs a full-page image.
    pub fn begin_checkpoint(&mut self) {
        self.checkpoint(|_| ());
    }

    /// As `begin_checkpoint`; `write` gets each page that is written, in the order of buffers.
    pub(super) fn checkpoint(&mut self, mut write: impl FnMut(u32)) {
        self.tidy();
        for buffer in std::mem::take(&mut self.dirty) {
            self.counts.checkpoint_writes += 1;
            write(self.page_in[buffer as usize]);
            self.state[buffer as usize] &= !DIRTY;
        }
        self.checkpoint += 1;
    }

    fn make_dirty(&mut self, buffer: u32) {
        let state = &mut self.state[buffer as usize];
        if *state & DIRTY == 0 {
            *state |= DIRTY;
            self.dirty.push(buffer);
            if self.dirty.len() > 2 * self.page_in.len() + 1024 {
                self.tidy();
            }
        }
    }

    /// Keeps in the list only the dirty ones, once each, in the order of buffers.
    fn tidy(&mut self) {
        let state = &self.state;
        self.dirty
            .retain(|&buffer| state[buffer as usize] & DIRTY != 0);
        self.dirty.sort_unstable();
        self.dirty.dedup();
    }

    /// The number of buffers that the hand has passed, and of allocated buffers, so far.
    pub(super) fn sweep(&self) -> (u64, u64) {
        let passed = self.rounds * self.count as u64 + self.hand as u64;
        (passed, self.allocations)
    }

    /// SyncOneBuffer: what the background writer does with a buffer.
    pub(super) fn clean(&mut self, buffer: usize) -> Looked {
        let is_pinned = self.pinned.contains(&(buffer as u32));
        let Some(state) = self.state.get_mut(buffer) else {
            return Looked::Reusable; // never used
        };
        if *state & USAGE != 0 || is_pinned {
            return Looked::Used;
        }
        if *state & DIRTY == 0 {
            return Looked::Reusable;
        }
        *state &= !DIRTY;
        self.counts.writer_writes += 1;
        Looked::Written(self.page_in[buffer])
    }

    /// Prefetches the entries of pages that will be accessed soon.
    #[inline]
    pub(super) fn touch(&self, pages: impl Iterator<Item = u32>) {
        touch(&self.buffer_of, pages);
    }

    /// An access by a backend. `scan` is the number of the backend's scan, `relation` the size of the page's relation in
    /// pages.
    #[inline]
    pub fn access(
        &mut self,
        page: u32,
        backend: u32,
        scan: u32,
        how: u8,
        relation: u64,
    ) -> Outcome {
        if self
            .filter
            .is_some_and(|filter| filter.takes(page).is_none())
        {
            if !Kind::of(how).changes() {
                // It lets go of the last page that is in the sample.
                self.pinned[backend as usize % self.pins] = NONE;
            }
            return Outcome::Nothing;
        }
        let number = page as usize;
        if number >= self.buffer_of.len() {
            self.buffer_of
                .resize((number + 1).next_power_of_two(), NONE);
        }
        let buffer = self.buffer_of[number];
        let kind = Kind::of(how);
        if kind.changes() {
            self.change(page, buffer);
            return Outcome::Nothing;
        }
        let pin = backend as usize % self.pins;
        if buffer != NONE {
            self.counts.hits += 1;
            if kind == Kind::Pin {
                return Outcome::Nothing; // PinBuffer: no further use
            }
            let in_ring = how >> 4 != 0 && self.rings.serve(Strategy::of(how), relation);
            let state = &mut self.state[buffer as usize];
            if !in_ring {
                *state += u8::from(*state & USAGE < MOST_USAGE);
            } else if *state & USAGE == 0 {
                *state += 1;
            }
            self.pinned[pin] = buffer;
            return Outcome::Nothing;
        }
        self.pinned[pin] = NONE; // the backend unpins its last page before it searches for a buffer
        let strategy = Strategy::of(how);
        let buffer = if how >> 4 != 0 && self.rings.serve(strategy, relation) {
            self.buffer_of_ring(backend, scan, strategy)
        } else {
            self.victim()
        };
        let out = std::mem::replace(&mut self.page_in[buffer as usize], page);
        let mut written = None;
        if out != NONE {
            self.buffer_of[out as usize] = NONE;
            self.counts.evictions += 1;
            if self.state[buffer as usize] & DIRTY != 0 {
                self.counts.dirty_evictions += 1;
                written = Some(out);
            }
        }
        self.buffer_of[number] = buffer;
        self.state[buffer as usize] = 1;
        self.pinned[pin] = buffer;
        if kind == Kind::Extend {
            self.counts.extends += 1;
            self.make_dirty(buffer);
            // The record of its first change rebuilds the page: REGBUF_WILL_INIT.
            self.log(page);
            Outcome::Extended { written }
        } else {
            self.counts.reads += 1;
            Outcome::Read { written }
        }
    }

    fn change(&mut self, page: u32, buffer: u32) {
        if buffer != NONE {
            self.make_dirty(buffer);
        }
        self.counts.full_page_images += u64::from(!self.log(page));
    }

    /// Logs the whole page. Returns whether it had been logged since the last checkpoint began.
    fn log(&mut self, page: u32) -> bool {
        let page = page as usize;
        if page >= self.image.len() {
            self.image.resize((page + 1).next_power_of_two(), 0);
        }
        std::mem::replace(&mut self.image[page], self.checkpoint) == self.checkpoint
    }

    /// As GetBufferFromRing and AddBufferToRing: the ring's next buffer unless others use it, too.
    fn buffer_of_ring(&mut self, backend: u32, scan: u32, strategy: Strategy) -> u32 {
        let turn = self.rings.turn(backend, scan, strategy);
        if let Some(buffer) = turn.buffer
            && self.state[buffer as usize] & USAGE <= 1
            && !self.pinned.contains(&buffer)
        {
            return buffer;
        }
        let buffer = self.victim();
        self.rings.put(turn.place, backend, strategy, buffer);
        buffer
    }

    /// As StrategyGetBuffer: a buffer that was never used, otherwise the next one under the hand with a usage count of
    /// zero.
    #[inline]
    fn victim(&mut self) -> u32 {
        let buffers = self.count;
        self.allocations += 1;
        if self.page_in.len() < buffers {
            self.page_in.push(NONE);
            self.state.push(0);
            return self.page_in.len() as u32 - 1;
        }
        // If all of the few buffers are pinned, PostgreSQL gives up; here the hand takes one in its eighth round.
        let mut steps = 0;
        loop {
            let buffer = self.hand;
            self.hand += 1;
            if self.hand == buffers {
                self.hand = 0;
                self.rounds += 1;
            }
            steps += 1;
            if self.state[buffer] & USAGE != 0 {
                if !self.pinned.contains(&(buffer as u32)) {
                    self.state[buffer] -= 1;
                } else if steps > 8 * buffers {
                    return buffer as u32;
                }
            } else if !self.pinned.contains(&(buffer as u32)) || steps > 8 * buffers {
                return buffer as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests;
