//! A server simulated from a trace: PostgreSQL's shared buffers above the kernel's page cache above a device.
//!
//! A page that is not in shared buffers is read from the kernel; a page that is not in the page cache is read from the
//! device, with the kernel's readahead. Dirty pages are written by evictions and checkpoints, as far as the trace
//! contains changes.

mod background_writer;
mod blocks;
mod device;
mod kernel;
mod lists;
mod log;
#[cfg(test)]
mod miniature_tests;
mod page_cache;
mod readahead;
mod self_similar;
mod snapshots;
#[cfg(test)]
mod tests;
mod writeback;
mod writing;

pub use background_writer::{BackgroundWriter, WriterSettings};
pub use blocks::Blocks;
pub use device::DeviceCounts;
pub use kernel::{Kernel, KernelCounts, KernelSettings};
pub use log::LogSettings;
pub use page_cache::PageCache;
pub use readahead::{OpenFile, Window};
pub use self_similar::{Lean, SelfSimilar};
pub use snapshots::{Seen, Snapshot};
pub use writing::FlushSettings;

use blocks::{Block, Homes};
use kernel::SEGMENT;
use log::Log;

use super::{Batch, BufferManager, Consumer, buffers::Outcome, feed::is_change};
use crate::trace::{EventKind, Kind, Strategy};

/// The number of accesses whose buffers are prefetched together, so that the CPU overlaps their memory latencies.
const AHEAD: usize = 64;

/// A server's requests to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Reads.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
}

/// Blocks that a scan reads in one request.
#[derive(Clone, Copy)]
struct Run {
    stream: u32,
    offset: u64,
    length: u64,
}

/// When checkpoints begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoints {
    /// At the times in the trace.
    #[default]
    Recorded,
    /// Regularly (checkpoint_timeout), and not at the times in the trace. In microseconds.
    Every {
        /// From the beginning of a cycle to its checkpoint.
        interval: u64,
        /// The beginning of the first cycle on the trace's clock.
        from: u64,
    },
}

/// A server with blocks of one size.
pub struct Server {
    own_size: u64,
    blocks: Blocks,
    block_size: u64,
    buffers: BufferManager,
    /// io_combine_limit in bytes; at most a block's size if reads are not combined.
    combine_limit: u64,
    kernel: Option<Kernel>,
    homes: Homes,
    /// By stream: the relation's size in bytes.
    sizes: Vec<u64>,
    /// By backend: the blocks that its scan will read next.
    runs: Vec<Option<Run>>,
    /// By backend: the last block of its scan, because merged pages are one access of a scan.
    scanned: Vec<u32>,
    requests: RequestCounts,
    checkpoints: Checkpoints,
    next_checkpoint: u64,
    writer: Option<BackgroundWriter>,
    log: Option<Log>,
    /// Blocks written by the background writer and not flushed yet.
    unflushed: Vec<(u32, u64)>,
    flushes: FlushSettings,
    /// The largest size of a file in bytes.
    segment: u64,
    /// The blocks of an access; a reused buffer.
    found: Vec<Block>,
    now: u64,
    /// The accesses of the trace so far, and the number of them in the sample.
    ordinal: u64,
    taken: u64,
    seen: Seen,
    /// The times of snapshots, the next one last; and the snapshots.
    marks: Vec<u64>,
    snapshots: Vec<Snapshot>,
}

impl Server {
    /// With empty caches. `own_size` is the trace's page size, `combine_limit` the io_combine_limit in bytes (0 before
    /// PostgreSQL 17); without a kernel only the requests to it are counted.
    #[must_use]
    pub fn new(
        own_size: u64,
        blocks: Blocks,
        buffers: BufferManager,
        combine_limit: u64,
        kernel: Option<Kernel>,
    ) -> Self {
        Self {
            own_size,
            block_size: blocks.size(own_size),
            blocks,
            buffers,
            combine_limit,
            kernel,
            homes: Homes::default(),
            sizes: Vec::new(),
            runs: Vec::new(),
            scanned: Vec::new(),
            requests: RequestCounts::default(),
            checkpoints: Checkpoints::Recorded,
            next_checkpoint: 0,
            writer: None,
            log: None,
            unflushed: Vec::new(),
            flushes: FlushSettings::default(),
            segment: SEGMENT,
            found: Vec::new(),
            now: 0,
            ordinal: 0,
            taken: 0,
            seen: Seen::default(),
            marks: Vec::new(),
            snapshots: Vec::new(),
        }
    }

    /// The same as a miniature: its trace has one of this many pages. The caller determines the sizes of the caches.
    #[must_use]
    pub fn miniature(mut self, scale: u64) -> Self {
        self.segment = SEGMENT / scale;
        if self.flushes.writer > 0 {
            self.flushes.writer = (self.flushes.writer / scale as usize).max(1);
        }
        self.buffers = self.buffers.miniature(scale);
        self
    }

    /// The same, with a snapshot before the first access at or after each of these times in microseconds.
    #[must_use]
    pub fn marked(mut self, marks: &[u64]) -> Self {
        self.marks = marks.to_vec();
        self.marks.sort_unstable_by(|one, other| other.cmp(one));
        self
    }

    /// The snapshots in the order of time; after the end of the trace also one of its end.
    #[must_use]
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    fn snapshot(&self, time: u64) -> Snapshot {
        Snapshot {
            time,
            ordinal: self.ordinal,
            taken: self.taken,
            buffers: self.buffers.counts(),
            requests: self.requests,
            kernel: self.kernel.as_ref().map(Kernel::counts),
            device: self.kernel.as_ref().map(Kernel::device),
            first_reads: self.seen.first_reads(),
        }
    }

    /// The same with a background writer, and with checkpoints at these times. Both write their pages immediately.
    #[must_use]
    pub fn writing(mut self, writer: WriterSettings, checkpoints: Checkpoints) -> Self {
        self.writer = Some(BackgroundWriter::new(writer));
        self.checkpoints = checkpoints;
        if let Checkpoints::Every { interval, from } = checkpoints {
            self.next_checkpoint = from.saturating_add(interval.max(1));
        }
        self
    }

    /// The same with these flushes instead of PostgreSQL's defaults.
    #[must_use]
    pub const fn flushing(mut self, settings: FlushSettings) -> Self {
        self.flushes = settings;
        self
    }

    /// The same with WAL that passes through the page cache.
    #[must_use]
    pub fn logging(mut self, settings: LogSettings) -> Self {
        self.log = Some(Log::new(settings));
        self
    }

    /// The counters of shared buffers.
    #[must_use]
    pub const fn buffers(&self) -> &BufferManager {
        &self.buffers
    }

    /// The requests to the kernel.
    #[must_use]
    pub const fn requests(&self) -> RequestCounts {
        self.requests
    }

    /// The page cache and the device.
    #[must_use]
    pub const fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// Reads the blocks that scans have not read yet.
    pub fn finish(&mut self) {
        for backend in 0..self.runs.len() {
            self.end_run(backend as u32);
        }
        while let Some(mark) = self.marks.pop() {
            self.snapshots.push(self.snapshot(mark));
        }
        self.snapshots.push(self.snapshot(self.now));
    }

    fn read(&mut self, backend: u32, run: Run) {
        self.requests.reads += 1;
        self.requests.read_bytes += run.length;
        if let Some(kernel) = &mut self.kernel {
            let size = self.sizes[run.stream as usize];
            kernel.read(backend, run.stream, run.offset, run.length, size);
        }
    }

    fn end_run(&mut self, backend: u32) {
        let run = self
            .runs
            .get_mut(backend as usize)
            .and_then(|place| place.take());
        if let Some(run) = run {
            self.read(backend, run);
        }
    }

    fn is_in_run(&self, backend: u32, stream: u32) -> bool {
        let run = self.runs.get(backend as usize);
        run.is_some_and(|run| run.is_some_and(|run| run.stream == stream))
    }

    /// Reads a block that is missing: immediately, or together with its neighbours if a scan needs them.
    fn miss(&mut self, backend: u32, stream: u32, block: Block, strategy: Strategy) {
        let alone = Run {
            stream,
            offset: block.offset,
            length: self.block_size,
        };
        let scans = matches!(strategy, Strategy::BulkRead | Strategy::Vacuum);
        if !scans || self.combine_limit < 2 * self.block_size {
            self.read(backend, alone);
            return;
        }
        let place = backend as usize;
        if place >= self.runs.len() {
            self.runs.resize(place + 1, None);
        }
        let limit = self.combine_limit;
        if let Some(run) = &mut self.runs[place] {
            let next = run.offset.saturating_add(run.length);
            if run.stream == stream
                && next == block.offset
                && run.length + self.block_size <= limit
                && next % self.segment != 0
            {
                run.length += self.block_size;
                return;
            }
        }
        self.end_run(backend);
        self.runs[place] = Some(alone);
    }

    /// Whether it is the next page of a scan in the same block as before. A scan accesses each block once.
    fn is_scanned(&mut self, backend: u32, how: u8, block: Block) -> bool {
        let place = backend as usize;
        if place >= self.scanned.len() {
            self.scanned.resize(place + 1, u32::MAX);
        }
        let scans = matches!(Strategy::of(how), Strategy::BulkRead | Strategy::Vacuum);
        if !scans || !Kind::of(how).reads() {
            return false;
        }
        std::mem::replace(&mut self.scanned[place], block.number) == block.number
    }

    /// Does what is due at a time in microseconds.
    fn tick(&mut self, time: u64) {
        self.now = time;
        while self.marks.last().is_some_and(|&mark| time >= mark) {
            if let Some(mark) = self.marks.pop() {
                self.snapshots.push(self.snapshot(mark));
            }
        }
        if let Checkpoints::Every { interval, from } = self.checkpoints {
            if time >= self.next_checkpoint {
                self.checkpoint();
                let interval = interval.max(1);
                self.next_checkpoint = (time.saturating_sub(from) / interval)
                    .saturating_add(1)
                    .saturating_mul(interval)
                    .saturating_add(from);
            }
        }
        self.write_ahead(time);
        if let Some(kernel) = &mut self.kernel {
            kernel.expire(time);
        }
    }

    fn access(&mut self, batch: &Batch, place: usize, block: Block) {
        let (stream, backend) = (batch.stream[place], batch.backend[place]);
        let how = self.blocks.how(batch.page[place], batch.how[place]);
        if self.is_scanned(backend, how, block) {
            return;
        }
        let relation = self.blocks.of_pages(batch.blocks[stream as usize]);
        match self
            .buffers
            .access(block.number, backend, batch.scan[place], how, relation)
        {
            Outcome::Nothing => {
                if self.is_in_run(backend, stream) {
                    self.end_run(backend); // a block that is in a buffer ends the combined read
                }
            }
            Outcome::Read { written } => {
                self.seen.read(block.number);
                if let Some(out) = written {
                    self.write(out);
                }
                self.miss(backend, stream, block, Strategy::of(how));
            }
            Outcome::Extended { written } => {
                self.seen.extended(block.number);
                if let Some(out) = written {
                    self.write(out);
                }
                // The file is extended by a page of zeros.
                if let Some(kernel) = &mut self.kernel {
                    kernel.write(stream, block.offset, self.block_size, block.offset);
                }
            }
        }
    }
}

impl Consumer for Server {
    fn consume(&mut self, batch: &Batch) {
        self.homes.learn(batch);
        self.sizes.clear();
        self.sizes.extend(
            batch
                .blocks
                .iter()
                .map(|blocks| blocks.saturating_mul(self.own_size)),
        );
        for event in &batch.events {
            if event.kind == EventKind::CheckpointStart && self.checkpoints == Checkpoints::Recorded
            {
                self.checkpoint();
            }
        }
        let mut found = std::mem::take(&mut self.found);
        for first in (0..batch.page.len()).step_by(AHEAD) {
            let places = first..(first + AHEAD).min(batch.page.len());
            let pages = &batch.page[places.clone()];
            self.buffers
                .touch(pages.iter().map(|&page| self.blocks.first(page)));
            for place in places {
                self.tick(batch.time[place]);
                self.ordinal = batch.ordinal[place];
                self.taken += u64::from(!is_change(batch.how[place]));
                found.clear();
                self.blocks.each(
                    batch.page[place],
                    batch.how[place],
                    (
                        batch.stream[place],
                        (batch.backend[place], batch.visit[place]),
                    ),
                    &self.homes,
                    self.own_size,
                    |block| found.push(block),
                );
                for &block in &found {
                    self.access(batch, place, block);
                }
            }
            if let (Some(log), Some(kernel)) = (&mut self.log, &mut self.kernel) {
                let images = self.buffers.counts().full_page_images;
                let page_size = kernel.page_size();
                kernel.log(log.pages(self.now, images, page_size), log.kept(page_size));
            }
        }
        self.found = found;
    }
}
