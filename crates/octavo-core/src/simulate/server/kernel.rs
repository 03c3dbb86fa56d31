use std::collections::{HashMap, VecDeque};

use super::{
    device::{Device, DeviceCounts},
    page_cache::PageCache,
    readahead::{OpenFile, Window},
    snapshots::Seen,
    writeback::{DirtyPages, Place},
};
use crate::simulate::pages::Numbers;

/// The largest size of PostgreSQL's files in bytes (RELSEG_SIZE blocks).
pub(super) const SEGMENT: u64 = 1 << 30;

/// The kernel and the device below a server. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSettings {
    /// The memory for the page cache.
    pub memory: u64,
    /// The unit of the page cache: the memory page, or the filesystem's block if that is larger.
    pub page_size: u64,
    /// read_ahead_kb of the device; 0 for none.
    pub readahead: u64,
    /// The device's largest request: max_sectors_kb.
    pub largest_request: u64,
    /// Background writeback begins above this amount of dirty memory: vm.dirty_background_bytes, or the ratio's.
    pub dirty_background: u64,
    /// The age in microseconds at which a file with dirty pages is written: vm.dirty_expire_centisecs, on the trace's
    /// clock.
    pub dirty_expire: u64,
    /// For a miniature, which has one page of this many: memory, files and the amount that is written at once are
    /// smaller by this factor. 1 for a whole server.
    pub scale: u64,
}

/// The kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Reads of the server that found everything in the page cache.
    pub reads_from_cache: u64,
    /// Pages of the page cache that reads requested.
    pub pages_wanted: u64,
    /// Requested pages that were missing.
    pub pages_missing: u64,
    /// Pages that were read first because a write changes only a part of them.
    pub pages_read_to_write: u64,
    /// Pages of the page cache that were read from the device and had never been in it before.
    pub pages_read_first: u64,
}

/// A page cache above a device, with the readahead of each open file: a backend opens a segment of a relation once.
pub struct Kernel {
    settings: KernelSettings,
    /// The largest size of a file in bytes.
    segment: u64,
    numbers: Numbers,
    cache: PageCache,
    /// By backend, stream and segment: the index of the open file.
    numbers_of_files: HashMap<(u32, u32, u64), usize>,
    files: Vec<OpenFile>,
    device: Device,
    counts: KernelCounts,
    dirty: DirtyPages,
    now: u64,
    has_too_many: bool,
    seen: Seen,
    /// Pages of the WAL, least recently written first.
    log: VecDeque<u32>,
}

impl Kernel {
    /// With an empty page cache.
    #[must_use]
    pub fn new(settings: KernelSettings) -> Self {
        let KernelSettings {
            page_size, scale, ..
        } = settings;
        Self {
            settings,
            segment: SEGMENT / scale,
            numbers: Numbers::default(),
            cache: PageCache::new(settings.memory / scale, page_size).miniature(scale),
            numbers_of_files: HashMap::new(),
            files: Vec::new(),
            device: Device::new(settings.largest_request),
            counts: KernelCounts::default(),
            dirty: DirtyPages::new(
                SEGMENT,
                page_size,
                settings.dirty_background,
                settings.dirty_expire,
                scale,
            ),
            now: 0,
            has_too_many: false,
            seen: Seen::default(),
            log: VecDeque::new(),
        }
    }

    /// The counters so far.
    #[must_use]
    pub const fn counts(&self) -> KernelCounts {
        KernelCounts {
            pages_read_first: self.seen.first_reads(),
            ..self.counts
        }
    }

    /// The requests to the device so far.
    #[must_use]
    pub const fn device(&self) -> DeviceCounts {
        self.device.counts()
    }

    /// The size of a page of the page cache.
    pub(super) const fn page_size(&self) -> u64 {
        self.settings.page_size
    }

    /// Whether there were more pages than numbers, so that the counters are incomplete.
    #[must_use]
    pub const fn has_too_many(&self) -> bool {
        self.has_too_many
    }

    fn number(&mut self, stream: u32, place: u64) -> Option<u32> {
        let number = self.numbers.page(stream, place);
        self.numbers.forget_new();
        self.has_too_many |= number.is_none();
        number
    }

    fn cached(&self, stream: u32, place: u64) -> Option<u32> {
        self.numbers
            .known(stream, place)
            .filter(|&number| self.cache.has(number))
    }

    /// pread by a backend: `length` bytes at `offset` within one segment of a relation that has `size` bytes.
    pub fn read(&mut self, backend: u32, stream: u32, offset: u64, length: u64, size: u64) {
        self.numbers.make_room(stream);
        let page_size = self.settings.page_size;
        let most = self.settings.readahead / page_size;
        let segment = offset / self.segment;
        let base = segment * (self.segment / page_size);
        let end_of_file =
            self.end_of_segment(size.max(offset.saturating_add(length)), segment, page_size);
        let within = offset % self.segment;
        let (first, end) = (
            within / page_size,
            (within + length.max(1)).div_ceil(page_size),
        );
        let open = *self
            .numbers_of_files
            .entry((backend, stream, segment))
            .or_insert(self.files.len());
        if open == self.files.len() {
            self.files.push(OpenFile::default());
        }
        let mut file = self.files[open];
        // The page in which the last read of this file ended is not marked as accessed again (filemap_read).
        let same = file
            .previous_end
            .checked_sub(1)
            .is_some_and(|last| last / page_size == first);
        let mut all = true;
        for index in first..end {
            let mut found = self.cached(stream, base + index);
            if found.is_none() {
                all = false;
                self.counts.pages_missing += 1;
                let window = file.on_miss(index, end - index, most, page_size, |index| {
                    self.cached(stream, base + index).is_some()
                });
                self.fill(stream, base, window, end_of_file);
                found = self.cached(stream, base + index).or_else(|| {
                    // The window was larger than the cache.
                    let only = Window {
                        start: index,
                        pages: 1,
                        ahead: 0,
                    };
                    self.fill(stream, base, only, end_of_file);
                    self.cached(stream, base + index)
                });
            }
            let Some(page) = found else {
                continue;
            };
            if index > first || !same {
                self.cache.mark_accessed(page);
            }
            if self.cache.take_mark(page) {
                let window = file.on_mark(index, end - index, most, |index| {
                    self.cached(stream, base + index).is_some()
                });
                if let Some(window) = window {
                    self.fill(stream, base, window, end_of_file);
                }
            }
        }
        self.counts.pages_wanted += end - first;
        self.counts.reads_from_cache += u64::from(all);
        file.previous_end = within + length;
        self.files[open] = file;
    }

    /// page_cache_ra_unbounded: reads the missing pages of a window, neighbours in one request.
    fn fill(&mut self, stream: u32, base: u64, window: Window, end_of_file: u64) {
        let end = (window.start + window.pages).min(end_of_file);
        let mark = end.checked_sub(window.ahead).filter(|_| window.ahead > 0);
        let mut run = 0;
        for index in window.start..end {
            let Some(page) = self.number(stream, base + index) else {
                break;
            };
            if self.cache.has(page) {
                self.device.read(run * self.settings.page_size);
                run = 0;
                continue;
            }
            self.seen.read(page);
            self.add(page);
            if mark == Some(index) {
                self.cache.mark(page);
            }
            run += 1;
        }
        self.device.read(run * self.settings.page_size);
    }

    /// Adds a page that is read to the page cache. If all pages that reclaim examines are dirty, it wakes the flusher,
    /// which writes all of them.
    fn add(&mut self, page: u32) {
        while !self.cache.add(page) {
            self.sync();
        }
    }

    fn add_written(&mut self, page: u32) {
        while !self.cache.add_written(page) {
            self.sync();
        }
    }

    /// Writes and syncs this many pages of the WAL, over those that were written `kept` pages before. Nobody reads
    /// them: they are evicted in the order in which they were written, and their numbers are used again.
    pub fn log(&mut self, pages: u64, kept: u64) {
        // More pages than the cache holds would evict each other.
        let most = self.settings.memory / self.settings.scale / self.settings.page_size;
        for _ in 0..pages.min(most) {
            let is_free = self.log.front().is_some_and(|&page| !self.cache.has(page));
            if !is_free && (self.log.len() as u64) < kept.max(1) {
                let Some(first) = self.numbers.others() else {
                    self.has_too_many = true;
                    return;
                };
                (first..=first | Numbers::IN_CHUNK).for_each(|page| self.log.push_front(page));
            }
            if let Some(page) = self.log.pop_front() {
                if !self.cache.has(page) {
                    self.add_written(page);
                }
                self.log.push_back(page);
            }
        }
    }

    /// pwrite: `length` bytes at `offset` of a relation that had `size` bytes before. It does not count as an access of
    /// the page cache (Linux 4.7, "mm: filemap: only do access activations on reads").
    pub fn write(&mut self, stream: u32, offset: u64, length: u64, size: u64) {
        self.numbers.make_room(stream);
        let page_size = self.settings.page_size;
        let end = offset.saturating_add(length);
        for place in offset / page_size..end.div_ceil(page_size) {
            let Some(page) = self.number(stream, place) else {
                return;
            };
            if !self.cache.has(page) {
                let start = place.saturating_mul(page_size);
                let stop = start.saturating_add(page_size);
                // A part of a page that is on the device: the rest of the page is read first.
                if start < size && (start < offset || end < stop.min(size)) {
                    self.counts.pages_read_to_write += 1;
                    self.device.read(page_size);
                }
                self.seen.extended(page);
                self.add_written(page);
            }
            if self.cache.make_dirty(page) {
                self.dirty.add((stream, place), self.now);
            }
        }
        let due = self.dirty.take_above_threshold();
        self.write_back(due);
    }

    /// The number of dirty bytes.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.len() as u64 * self.settings.page_size
    }

    /// Writes the files that have been dirty for long at this time, in microseconds.
    pub fn expire(&mut self, time: u64) {
        self.now = time;
        let due = self.dirty.take_old(time);
        self.write_back(due);
    }

    /// fsync of all files: writes dirty pages, neighbours in one request.
    pub fn sync(&mut self) {
        let due = self.dirty.take_all();
        self.write_back(due);
    }

    /// sync_file_range of blocks of `length` bytes, each a stream and an offset, as IssuePendingWritebacks of bufmgr.c
    /// calls it: sorted, neighbours at once.
    pub fn flush(&mut self, blocks: &mut Vec<(u32, u64)>, length: u64) {
        blocks.sort_unstable();
        let page_size = self.settings.page_size;
        let pages = blocks.iter().flat_map(|&(stream, offset)| {
            let end = offset.saturating_add(length).div_ceil(page_size);
            (offset / page_size..end).map(move |place| (stream, place))
        });
        let due = self.dirty.take(pages);
        self.write_back(due);
        blocks.clear();
    }

    fn write_back(&mut self, pages: Vec<Place>) {
        let mut run = 0;
        let mut before = None;
        for (stream, place) in pages {
            if let Some(page) = self.numbers.known(stream, place) {
                self.cache.make_clean(page);
            }
            if before != Some((stream, place.wrapping_sub(1))) {
                self.device.write(run * self.settings.page_size);
                run = 0;
            }
            run += 1;
            before = Some((stream, place));
        }
        self.device.write(run * self.settings.page_size);
    }

    /// The number of pages of the page cache in a segment of a relation of this many bytes.
    const fn end_of_segment(&self, size: u64, segment: u64, page_size: u64) -> u64 {
        let left = size.saturating_sub(segment.saturating_mul(self.segment));
        let bytes = if left < self.segment {
            left
        } else {
            self.segment
        };
        bytes.div_ceil(page_size)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::kernel, *};

    const PAGE: u64 = 4096;

    fn read(kernel: &mut Kernel, pages: std::ops::Range<u64>) -> u64 {
        let before = kernel.device().reads;
        for page in pages {
            kernel.read(1, 0, page * PAGE, PAGE, 80 * PAGE);
        }
        kernel.device().reads - before
    }

    #[test]
    fn wal_pushes_out_what_was_read_once() {
        let mut kernel = Kernel::new(kernel(40 * PAGE, PAGE, 0));
        assert_eq!(read(&mut kernel, 0..20), 20);
        kernel.log(20, 1 << 20);
        assert_eq!(read(&mut kernel, 0..20), 0, "both have room");
        assert_eq!(read(&mut kernel, 40..50), 10);
        kernel.log(1000, 1 << 20);
        assert_eq!(read(&mut kernel, 0..20), 0, "read twice");
        assert_eq!(read(&mut kernel, 40..50), 10, "read once");
        assert!(kernel.log.len() <= 40 + 64, "numbers are used again");
        assert!(!kernel.has_too_many());
    }

    #[test]
    fn recycled_wal_takes_no_more_room() {
        let mut kernel = Kernel::new(kernel(200 * PAGE, PAGE, 0));
        assert_eq!(read(&mut kernel, 0..80), 80);
        kernel.log(100, 64);
        kernel.log(1000, 64);
        assert_eq!(read(&mut kernel, 0..80), 0);
        assert_eq!(kernel.log.len(), 64);
    }

    #[test]
    fn what_is_written_twice_is_not_read_twice() {
        let mut kernel = Kernel::new(kernel(40 * PAGE, PAGE, 0));
        for _ in 0..2 {
            for page in 0..20 {
                kernel.write(0, page * PAGE, PAGE, 80 * PAGE);
            }
        }
        kernel.sync();
        kernel.log(1000, 1 << 20);
        assert_eq!(read(&mut kernel, 0..20), 20);
    }
}
