use std::collections::{BTreeSet, HashMap};

/// Files with expired dirty pages are searched for this many times during the expiry time (vm.dirty_expire_centisecs,
/// 30 s; vm.dirty_writeback_centisecs, 5 s).
const LOOKS: u64 = 6;
/// Background writeback writes at least this many bytes before it checks its threshold again (MIN_WRITEBACK_PAGES).
const LEAST: u64 = 4 << 20;

/// A page of the page cache: its stream and its position there.
pub(super) type Place = (u32, u64);

/// The dirty pages of the page cache, and when the kernel writes which of them, as in fs/fs-writeback.c (Linux 6.x): a
/// file becomes due as a whole, and all its dirty pages are written in the order of the file, so that neighbours are
/// one request, whenever they became dirty. Above a threshold (vm.dirty_background_ratio) it continues after the page
/// that it wrote last (`writeback_index`).
///
/// Differences from Linux: writing takes no time, and the order of files is that of their numbers.
pub(super) struct DirtyPages {
    pages: BTreeSet<Place>,
    /// By stream and file: the time since which it has had dirty pages.
    files: HashMap<Place, u64>,
    cursor: Place,
    next_look: u64,
    expires: u64,
    pages_a_file: u64,
    most: usize,
    least: usize,
}

impl DirtyPages {
    /// With files of at most this many bytes, which are written after `expires` microseconds, and background writeback
    /// above `threshold` bytes; for a miniature, all sizes are `scale` times smaller.
    pub(super) fn new(file: u64, page_size: u64, threshold: u64, expires: u64, scale: u64) -> Self {
        let pages = |bytes: u64| usize::try_from(bytes / scale / page_size).unwrap_or(usize::MAX);
        Self {
            pages: BTreeSet::new(),
            files: HashMap::new(),
            cursor: (0, 0),
            next_look: 0,
            expires,
            pages_a_file: (file / scale / page_size).max(1),
            most: pages(threshold),
            least: pages(LEAST).max(1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// A page became dirty at a time in microseconds.
    pub(super) fn add(&mut self, page: Place, now: u64) {
        let file = (page.0, page.1 / self.pages_a_file);
        self.pages.insert(page);
        self.files.entry(file).or_insert(now);
    }

    /// All of them, in the order of files.
    pub(super) fn take_all(&mut self) -> Vec<Place> {
        self.files.clear();
        std::mem::take(&mut self.pages).into_iter().collect()
    }

    /// The dirty ones of these pages, which are sorted.
    pub(super) fn take(&mut self, pages: impl Iterator<Item = Place>) -> Vec<Place> {
        let found: Vec<Place> = pages.filter(|page| self.pages.remove(page)).collect();
        self.forget_files(&found);
        found
    }

    /// Pages of files that have been dirty for long, if a search is due.
    pub(super) fn take_old(&mut self, now: u64) -> Vec<Place> {
        if now < self.next_look {
            return Vec::new();
        }
        self.next_look = now.saturating_add(self.expires / LOOKS);
        let mut old: Vec<Place> = self
            .files
            .iter()
            .filter(|(_, since)| since.saturating_add(self.expires) <= now)
            .map(|(&file, _)| file)
            .collect();
        old.sort_unstable();
        let mut found = Vec::new();
        for (stream, file) in old {
            let first = file * self.pages_a_file;
            let of_file = (stream, first)..(stream, first.saturating_add(self.pages_a_file));
            let here = found.len();
            found.extend(self.pages.range(of_file));
            for page in &found[here..] {
                self.pages.remove(page);
            }
            self.files.remove(&(stream, file));
        }
        found
    }

    /// The pages that background writeback writes now: none below its threshold.
    pub(super) fn take_above_threshold(&mut self) -> Vec<Place> {
        let mut found = Vec::new();
        while self.pages.len() > self.most {
            let here = found.len();
            let after = self.pages.range(self.cursor..);
            found.extend(
                after
                    .chain(self.pages.range(..self.cursor))
                    .take(self.least),
            );
            for page in &found[here..] {
                self.pages.remove(page);
            }
            if let Some(&(stream, place)) = found.last() {
                self.cursor = (stream, place.saturating_add(1));
            }
        }
        self.forget_files(&found);
        found
    }

    fn forget_files(&mut self, written: &[Place]) {
        let mut before = None;
        for &(stream, place) in written {
            let file = (stream, place / self.pages_a_file);
            if before.replace(file) == Some(file) {
                continue;
            }
            let first = file.1 * self.pages_a_file;
            let of_file = (stream, first)..(stream, first.saturating_add(self.pages_a_file));
            if self.pages.range(of_file).next().is_none() {
                self.files.remove(&file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const SECOND: u64 = 1_000_000;

    fn dirty(threshold: u64, pages: impl Iterator<Item = Place>) -> DirtyPages {
        let mut found = DirtyPages::new(100 * PAGE, PAGE, threshold, 30 * SECOND, 1);
        pages.for_each(|page| found.add(page, 0));
        found
    }

    #[test]
    fn a_file_is_written_whole_when_its_first_page_is_old() {
        let mut found = DirtyPages::new(100 * PAGE, PAGE, u64::MAX, 30 * SECOND, 1);
        found.add((1, 70), SECOND);
        found.add((1, 20), 29 * SECOND);
        found.add((1, 120), 29 * SECOND); // another file
        assert!(found.take_old(30 * SECOND).is_empty());
        assert!(found.take_old(31 * SECOND).is_empty()); // the last search was a second ago
        assert_eq!(found.take_old(35 * SECOND), [(1, 20), (1, 70)]);
        assert_eq!(found.take_old(60 * SECOND), [(1, 120)]);
        found.add((1, 70), 60 * SECOND);
        assert!(found.take_old(89 * SECOND).is_empty());
        assert_eq!(found.take_old(95 * SECOND), [(1, 70)]);
    }

    #[test]
    fn with_another_clock_it_is_older_and_looked_for_more_often() {
        let mut found = DirtyPages::new(100 * PAGE, PAGE, u64::MAX, 6 * SECOND, 1);
        found.add((1, 70), SECOND);
        assert!(found.take_old(6 * SECOND).is_empty());
        assert_eq!(found.take_old(7 * SECOND), [(1, 70)]);
    }

    #[test]
    fn above_the_threshold_4_mb_are_written_behind_those_that_were_last() {
        let mut found = dirty(2000 * PAGE, (0..2000).map(|place| (1, place)));
        assert!(found.take_above_threshold().is_empty());
        found.add((2, 0), 0);
        assert_eq!(
            found.take_above_threshold(),
            (0..1024).map(|place| (1, place)).collect::<Vec<_>>()
        );
        assert_eq!(found.len(), 977);
        (0..1024).for_each(|place| found.add((1, place), 0));
        let expected: Vec<_> = (1024..2000)
            .map(|place| (1, place))
            .chain([(2, 0)])
            .collect();
        assert_eq!(found.take_above_threshold()[..977], expected);
    }

    #[test]
    fn only_those_that_are_dirty_are_written() {
        let mut found = dirty(u64::MAX, [(1, 5), (1, 7), (2, 1)].into_iter());
        assert_eq!(found.take((4..7).map(|place| (1, place))), [(1, 5)]);
        assert_eq!(found.take_all(), [(1, 7), (2, 1)]);
        assert_eq!(found.len(), 0);
    }
}
