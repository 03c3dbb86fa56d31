/// The boundary in pages on which windows end: `ra->order` is 0 where folios are not large, and raised by 2.
const ALIGNED: u64 = 4;

/// Readahead of one open file as in mm/readahead.c (Linux 6.x, `struct file_ra_state`), in pages of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFile {
    start: u64,
    size: u64,
    /// How many of the window's pages are beyond the requested ones: `async_size`.
    ahead: u64,
    /// Where the last read ended, in bytes.
    pub previous_end: u64,
}

/// Pages to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first page.
    pub start: u64,
    /// The number of pages.
    pub pages: u64,
    /// How many pages before the end the page is whose access begins the next window; 0 for none.
    pub ahead: u64,
}

impl OpenFile {
    /// page_cache_sync_ra: page `index` is missing, `wanted` pages are requested from there on. `most` is read_ahead_kb
    /// in pages. `cached` returns whether a page before it is in memory.
    pub fn on_miss(
        &mut self,
        index: u64,
        wanted: u64,
        most: u64,
        page_size: u64,
        cached: impl Fn(u64) -> bool,
    ) -> Window {
        if most == 0 {
            return only(index, wanted);
        }
        // One request may be larger than the window (ractl_max_pages; `io_pages` is not a limit that matters here).
        let most = most.max(wanted);
        let before = index.wrapping_sub(self.previous_end / page_size);
        if index == 0 || before <= 1 {
            self.start = index;
            self.size = first_size(wanted, most);
            self.ahead = if self.size > wanted {
                self.size - wanted
            } else {
                self.size >> 1
            };
            return self.window();
        }
        let mut run = 0;
        while run < most && run < index && cached(index - 1 - run) {
            run += 1;
        }
        if run <= wanted {
            return only(index, wanted);
        }
        if run == index {
            run *= 2; // cached from the beginning of the file
        }
        self.start = index;
        self.size = (run + wanted).min(most);
        self.ahead = 1;
        self.window()
    }

    /// page_cache_async_ra: page `index` has the mark, `wanted` pages are requested from there on. None if nothing is
    /// read ahead.
    pub fn on_mark(
        &mut self,
        index: u64,
        wanted: u64,
        most: u64,
        cached: impl Fn(u64) -> bool,
    ) -> Option<Window> {
        if most == 0 {
            return None;
        }
        let most = most.max(wanted);
        if index == (self.start + self.size).wrapping_sub(self.ahead) {
            self.start += self.size;
            self.size = self.size.max(self.next_size(most));
        } else {
            // page_cache_next_miss examines this many pages, and returns the one after them if none is missing.
            let mut start = index + 1;
            while start <= index + most && cached(start) {
                start += 1;
            }
            if start - index > most {
                return None;
            }
            self.start = start;
            self.size = start - index + wanted;
            self.size = self.next_size(most);
        }
        // Since 6.16 windows end on a boundary: without large folios on every fourth page.
        let over = (self.start + self.size) % ALIGNED;
        if over < self.size {
            self.size -= over;
        }
        self.ahead = self.size;
        Some(self.window())
    }

    const fn window(&self) -> Window {
        Window {
            start: self.start,
            pages: self.size,
            ahead: self.ahead,
        }
    }

    /// get_next_ra_size
    const fn next_size(&self, most: u64) -> u64 {
        if self.size < most / 16 {
            4 * self.size
        } else if self.size <= most / 2 {
            2 * self.size
        } else {
            most
        }
    }
}

const fn only(index: u64, wanted: u64) -> Window {
    Window {
        start: index,
        pages: wanted,
        ahead: 0,
    }
}

/// get_init_ra_size
fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn window(start: u64, pages: u64, ahead: u64) -> Window {
        Window {
            start,
            pages,
            ahead,
        }
    }

    #[test]
    fn windows_of_a_sequential_reader_grow_as_the_kernel_says() {
        // 8 kB reads with 4 kB pages and read_ahead_kb 128: 16, 32, 64 kB, then 128 kB each.
        let mut file = OpenFile::default();
        assert_eq!(file.on_miss(0, 2, 32, 4096, |_| false), window(0, 4, 2));
        assert_eq!(file.on_mark(2, 2, 32, |_| true), Some(window(4, 8, 8)));
        assert_eq!(file.on_mark(4, 2, 32, |_| true), Some(window(12, 16, 16)));
        assert_eq!(file.on_mark(12, 2, 32, |_| true), Some(window(28, 32, 32)));
        assert_eq!(file.on_mark(28, 2, 32, |_| true), Some(window(60, 32, 32)));
    }

    #[test]
    fn windows_are_those_that_linux_6_18_was_seen_to_read() {
        // ext4 without large folios, read_ahead_kb 2560, 8 kB reads from page 2000 on: 2, 8, 30, 120, 240 pages.
        let mut file = OpenFile {
            previous_end: 1,
            ..OpenFile::default()
        };
        assert_eq!(file.on_miss(2000, 2, 640, 4096, |_| false).pages, 2);
        file.previous_end = 2002 * 4096;
        assert_eq!(
            file.on_miss(2002, 2, 640, 4096, |_| false),
            window(2002, 8, 6)
        );
        for (mark, pages) in [(2004, 30), (2010, 120), (2040, 240)] {
            let found = file.on_mark(mark, 2, 640, |_| true).unwrap();
            assert_eq!((found.pages, found.ahead), (pages, pages));
        }
    }

    #[test]
    fn a_random_read_is_no_larger_than_asked_for() {
        let mut file = OpenFile {
            previous_end: 400_000,
            ..OpenFile::default()
        };
        assert_eq!(
            file.on_miss(5000, 2, 32, 4096, |_| false),
            window(5000, 2, 0)
        );
        // One kernel page of 64 kB contains eight such blocks: the request is the whole page.
        assert_eq!(file.on_miss(300, 1, 2, 65536, |_| false), window(300, 1, 0));
    }

    #[test]
    fn a_read_behind_the_last_one_begins_a_stream() {
        let mut file = OpenFile {
            previous_end: 100 * 4096,
            ..OpenFile::default()
        };
        assert_eq!(file.on_miss(100, 1, 32, 4096, |_| false), window(100, 4, 3));
        file.previous_end = 100 * 4096;
        assert_eq!(file.on_miss(101, 1, 32, 4096, |_| false), window(101, 4, 3));
        file.previous_end = 100 * 4096;
        assert_eq!(file.on_miss(102, 1, 32, 4096, |_| false), window(102, 1, 0));
    }

    #[test]
    fn cached_pages_before_it_are_traces_of_a_stream() {
        let mut file = OpenFile {
            previous_end: 1,
            ..OpenFile::default()
        };
        let cached = |index: u64| (50..60).contains(&index);
        assert_eq!(file.on_miss(60, 2, 32, 4096, cached), window(60, 12, 1));
        let from_the_start = |index: u64| index < 10;
        assert_eq!(
            file.on_miss(10, 2, 32, 4096, from_the_start),
            window(10, 22, 1)
        );
    }

    #[test]
    fn a_mark_without_a_state_goes_on_where_pages_are_missing() {
        let mut file = OpenFile::default();
        assert_eq!(
            file.on_mark(100, 2, 32, |index| index < 108),
            Some(window(108, 20, 20))
        );
        assert_eq!(file.on_mark(100, 2, 32, |_| true), None);
    }

    #[test]
    fn without_readahead_only_what_is_asked_for_is_read() {
        let mut file = OpenFile::default();
        assert_eq!(file.on_miss(0, 2, 0, 4096, |_| false), window(0, 2, 0));
        assert_eq!(file.on_mark(0, 2, 0, |_| true), None);
    }

    proptest! {
        #[test]
        fn windows_have_what_is_asked_for_and_no_more_than_may_be(
            steps in prop::collection::vec((any::<bool>(), 0_u64..1000, 1_u64..9), 0..60), most in 0_u64..64
        ) {
            let mut file = OpenFile::default();
            let mut limit = most;
            for (miss, index, wanted) in steps {
                let cached = |page: u64| page % 7 != 0;
                // A window keeps the size of a request that was larger than the limit.
                limit = limit.max(wanted);
                if miss {
                    let found = file.on_miss(index, wanted, most, 4096, cached);
                    prop_assert_eq!(found.start, index);
                    prop_assert!(found.pages >= wanted && found.pages <= limit && found.ahead <= found.pages);
                } else if let Some(found) = file.on_mark(index, wanted, most, cached) {
                    // A mark at page 0 that another reader has set is where a file without a state expects one: nothing
                    // is read then.
                    prop_assert!(found.pages <= limit);
                }
                file.previous_end = (index + wanted) * 4096;
            }
        }
    }
}
