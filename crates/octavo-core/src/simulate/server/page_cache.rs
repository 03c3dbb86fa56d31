use super::lists::{Links, List};

const RESIDENT: u8 = 1;
const ACTIVE: u8 = 2;
const REFERENCED: u8 = 4;
const MARKED: u8 = 8;
const DIRTY: u8 = 16;
const WAS_EVICTED: u8 = 32;
/// Reclaim found it dirty (PG_reclaim).
const RECLAIM: u8 = 64;
/// The number of pages that reclaim examines before it wakes the flusher because all of them are dirty
/// (SWAP_CLUSTER_MAX).
const BATCH: usize = 32;
const GIB: u64 = 1 << 30;

/// Linux's page cache as mm/swap.c, mm/vmscan.c and mm/workingset.c (6.x) manage file pages without CONFIG_LRU_GEN: a
/// new page is inactive, its second access makes it active, memory is taken from the oldest inactive page, and the
/// oldest active pages become inactive while the inactive list is too short. A page that is read again within as many
/// evictions and activations as there are active pages becomes active at once. Writing is no access (since 4.7). A
/// dirty page is not evicted: reclaim makes it active, and it is the next to be evicted once it has been written.
///
/// Differences from Linux: memory is taken page by page when all of it is used, not in batches between watermarks;
/// accesses count at once, not in batches of 31 pages per CPU; evicted pages are never forgotten.
///
/// Memory: 13 bytes per page number.
pub struct PageCache {
    links: Links,
    inactive: List,
    active: List,
    flags: Vec<u8>,
    /// By page: the age at its last eviction.
    evicted: Vec<u32>,
    /// The number of evictions and activations so far: `nonresident_age`.
    age: u32,
    /// Whether a page was read again and became active since memory was last taken.
    came_back: bool,
    capacity: usize,
    page_size: u64,
    scale: u64,
}

impl PageCache {
    /// This many bytes of memory in pages of this size, at least one.
    #[must_use]
    pub fn new(memory: u64, page_size: u64) -> Self {
        Self {
            links: Links::default(),
            inactive: List::new(),
            active: List::new(),
            flags: Vec::new(),
            evicted: Vec::new(),
            age: 0,
            came_back: false,
            capacity: usize::try_from(memory / page_size.max(1))
                .unwrap_or(usize::MAX)
                .max(1),
            page_size,
            scale: 1,
        }
    }

    /// The same as a miniature of a cache that is `scale` times as large.
    #[must_use]
    pub const fn miniature(mut self, scale: u64) -> Self {
        self.scale = scale;
        self
    }

    /// Whether the page is in memory.
    #[must_use]
    pub fn has(&self, page: u32) -> bool {
        self.is(page, RESIDENT)
    }

    fn is(&self, page: u32, flag: u8) -> bool {
        self.flags
            .get(page as usize)
            .is_some_and(|flags| flags & flag != 0)
    }

    /// The number of inactive and of active pages.
    #[must_use]
    pub const fn lengths(&self) -> (usize, usize) {
        (self.inactive.len(), self.active.len())
    }

    /// An access of a page that is in memory: folio_mark_accessed.
    pub fn mark_accessed(&mut self, page: u32) {
        let flags = &mut self.flags[page as usize];
        if *flags & REFERENCED == 0 {
            *flags |= REFERENCED;
        } else if *flags & ACTIVE == 0 {
            *flags = *flags & !REFERENCED | ACTIVE;
            self.links.remove(&mut self.inactive, page);
            self.links.push(&mut self.active, page);
            self.age = self.age.wrapping_add(1);
        }
    }

    /// Adds a page that is not in memory, to be read. Returns false, and adds nothing, if 32 successive pages that
    /// would have to be evicted are dirty: then they must be written first.
    #[must_use]
    pub fn add(&mut self, page: u32) -> bool {
        self.put(page, true)
    }

    /// The same for a page that is written: it is inactive even if it was in memory shortly before (filemap_add_folio
    /// with __GFP_WRITE).
    #[must_use]
    pub fn add_written(&mut self, page: u32) -> bool {
        self.put(page, false)
    }

    fn put(&mut self, page: u32, is_read: bool) -> bool {
        let place = page as usize;
        if place >= self.flags.len() {
            let length = (place + 1).next_power_of_two();
            self.flags.resize(length, 0);
            self.evicted.resize(length, 0);
        }
        let full = self.inactive.len() + self.active.len() >= self.capacity;
        if full && !self.evict() {
            return false;
        }
        // workingset_refault
        let distance = self.age.wrapping_sub(self.evicted[place]);
        let comes_back = is_read
            && self.flags[place] & WAS_EVICTED != 0
            && distance as usize <= self.active.len();
        self.flags[place] = if comes_back {
            RESIDENT | ACTIVE
        } else {
            RESIDENT
        };
        if comes_back {
            self.age = self.age.wrapping_add(1);
            self.came_back = true;
            self.links.push(&mut self.active, page);
        } else {
            self.links.push(&mut self.inactive, page);
        }
        true
    }

    /// inactive_is_low: the permitted ratio of the active to the inactive list depends on their memory.
    fn inactive_is_low(&self) -> bool {
        let (inactive, active) = (self.inactive.len() as u64, self.active.len() as u64);
        let gib = (inactive + active).saturating_mul(self.page_size * self.scale) / GIB;
        let ratio = if gib == 0 { 1 } else { (10 * gib).isqrt() };
        inactive * ratio < active
    }

    /// shrink_active_list and shrink_inactive_list, until one page has been evicted. Returns whether that was possible.
    fn evict(&mut self) -> bool {
        for _ in 0..BATCH {
            let mut wanted = std::mem::take(&mut self.came_back) || self.inactive.len() == 0;
            while wanted || self.inactive_is_low() {
                wanted = false;
                let Some(page) = self.active.oldest() else {
                    break;
                };
                self.flags[page as usize] &= !ACTIVE;
                self.links.remove(&mut self.active, page);
                self.links.push(&mut self.inactive, page);
            }
            let Some(page) = self.inactive.oldest() else {
                break;
            };
            self.links.remove(&mut self.inactive, page);
            if self.is(page, DIRTY) {
                self.flags[page as usize] |= ACTIVE | RECLAIM;
                self.links.push(&mut self.active, page);
                self.age = self.age.wrapping_add(1);
                continue;
            }
            self.flags[page as usize] = WAS_EVICTED;
            self.evicted[page as usize] = self.age;
            self.age = self.age.wrapping_add(1);
            return true;
        }
        false
    }

    /// Sets the mark at which the next readahead begins (PG_readahead).
    pub fn mark(&mut self, page: u32) {
        self.flags[page as usize] |= MARKED;
    }

    /// Removes the mark. Returns whether it was set.
    pub fn take_mark(&mut self, page: u32) -> bool {
        let flags = &mut self.flags[page as usize];
        let was = *flags & MARKED != 0;
        *flags &= !MARKED;
        was
    }

    /// The page was written to. Returns whether it was clean.
    pub fn make_dirty(&mut self, page: u32) -> bool {
        let flags = &mut self.flags[page as usize];
        let was_clean = *flags & DIRTY == 0;
        *flags = (*flags | DIRTY) & !RECLAIM;
        was_clean
    }

    /// The page was written back; one that reclaim found dirty is evicted next (folio_rotate_reclaimable). Returns
    /// whether it was dirty.
    pub fn make_clean(&mut self, page: u32) -> bool {
        let Some(flags) = self.flags.get_mut(page as usize) else {
            return false;
        };
        let was = *flags;
        *flags &= !(DIRTY | RECLAIM);
        if was & RECLAIM != 0 {
            *flags &= !ACTIVE;
            let list = if was & ACTIVE == 0 {
                &mut self.inactive
            } else {
                &mut self.active
            };
            self.links.remove(list, page);
            self.links.push_oldest(&mut self.inactive, page);
        }
        was & DIRTY != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};

    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// The same rules with lists that are searched: the newest page is at the front.
    #[derive(Default)]
    struct Naive {
        inactive: VecDeque<(u32, bool)>,
        active: VecDeque<(u32, bool)>,
        shadows: HashMap<u32, usize>,
        age: usize,
        refaulted: bool,
    }

    impl Naive {
        fn access(&mut self, page: u32, capacity: usize) -> bool {
            let found = self
                .inactive
                .iter()
                .chain(&self.active)
                .any(|entry| entry.0 == page);
            if !found {
                if self.inactive.len() + self.active.len() == capacity {
                    let mut force = self.refaulted || self.inactive.is_empty();
                    self.refaulted = false;
                    while force || self.inactive.len() < self.active.len() {
                        force = false;
                        match self.active.pop_back() {
                            Some(entry) => self.inactive.push_front(entry),
                            None => break,
                        }
                    }
                    let (out, _) = self.inactive.pop_back().unwrap();
                    self.shadows.insert(out, self.age);
                    self.age += 1;
                }
                match self.shadows.remove(&page) {
                    Some(then) if self.age - then <= self.active.len() => {
                        self.age += 1;
                        self.refaulted = true;
                        self.active.push_front((page, false));
                    }
                    _ => self.inactive.push_front((page, false)),
                }
            }
            if let Some(entry) = self.active.iter_mut().find(|entry| entry.0 == page) {
                entry.1 = true;
            } else {
                let place = self
                    .inactive
                    .iter()
                    .position(|entry| entry.0 == page)
                    .unwrap();
                if self.inactive[place].1 {
                    self.inactive.remove(place);
                    self.active.push_front((page, false));
                    self.age += 1;
                } else {
                    self.inactive[place].1 = true;
                }
            }
            found
        }
    }

    proptest! {
        #[test]
        fn pages_stay_as_in_lists(pages in vec(prop_oneof![0_u32..12, 0_u32..60], 0..800), capacity in 1_usize..40) {
            let mut cache = PageCache::new(capacity as u64 * 4096, 4096);
            let mut naive = Naive::default();
            for page in pages {
                let had = cache.has(page);
                if !had {
                    prop_assert!(cache.add(page));
                }
                cache.mark_accessed(page);
                prop_assert_eq!(had, naive.access(page, capacity));
                prop_assert_eq!(cache.lengths(), (naive.inactive.len(), naive.active.len()));
            }
        }
    }

    fn read(cache: &mut PageCache, page: u32) -> bool {
        let had = cache.has(page);
        if !had {
            assert!(cache.add(page));
        }
        cache.mark_accessed(page);
        had
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_read_twice() {
        let mut cache = PageCache::new(100 * 4096, 4096);
        for _ in 0..2 {
            for page in 0..40 {
                read(&mut cache, page);
            }
        }
        assert_eq!(cache.lengths(), (0, 40));
        for page in 1000..5000 {
            read(&mut cache, page);
        }
        assert_eq!(cache.lengths(), (60, 40));
        assert!((0..40).all(|page| cache.has(page)));
    }

    #[test]
    fn what_comes_back_soon_is_active() {
        let mut cache = PageCache::new(4 * 4096, 4096);
        for page in [0, 0, 1, 1, 2, 3, 4] {
            read(&mut cache, page);
        }
        assert!(!cache.has(2), "the oldest inactive one");
        read(&mut cache, 2);
        // Two evictions (2 and 3) are as many as there are active pages.
        assert_eq!(cache.lengths(), (1, 3));
    }

    #[test]
    fn the_active_list_may_be_longer_where_there_is_much_memory() {
        let low_with = |inactive: u32, active: u32| {
            let mut cache = PageCache::new(GIB * 8, GIB / 2);
            for page in 0..active {
                read(&mut cache, page);
                read(&mut cache, page);
            }
            for page in active..active + inactive {
                read(&mut cache, page);
            }
            cache.inactive_is_low()
        };
        // 4 GiB: the square root of 40 is 6.
        assert!(!low_with(2, 6));
        assert!(low_with(1, 7));
        // Less than 1 GiB: equal.
        assert!(!low_with(1, 0));
        assert!(low_with(0, 1));
    }

    #[test]
    fn dirty_pages_stay_until_they_are_written_and_leave_first_then() {
        let mut cache = PageCache::new(3 * 4096, 4096);
        assert!(cache.add(0));
        assert!(cache.make_dirty(0));
        assert!(!cache.make_dirty(0));
        assert!(cache.add(1) && cache.add(2));
        assert!(cache.add(3));
        assert!(cache.has(0) && !cache.has(1), "reclaim passes over 0");
        assert_eq!(cache.lengths(), (2, 1));
        assert!(cache.make_clean(0));
        assert!(!cache.make_clean(0));
        assert_eq!(cache.lengths(), (3, 0));
        assert!(cache.add(4));
        assert!(!cache.has(0) && cache.has(2));
    }

    #[test]
    fn what_is_written_again_stays_inactive() {
        let mut cache = PageCache::new(4 * 4096, 4096);
        for page in [0, 0, 1, 1, 2, 3, 4] {
            read(&mut cache, page);
        }
        assert!(!cache.has(2) && cache.lengths() == (2, 2));
        assert!(cache.add_written(2));
        assert_eq!(cache.lengths(), (2, 2));
    }

    #[test]
    fn where_all_are_dirty_none_leaves() {
        let mut cache = PageCache::new(40 * 4096, 4096);
        for page in 0..40 {
            assert!(cache.add(page));
            cache.make_dirty(page);
        }
        assert!(!cache.add(99));
        assert!(!cache.has(99));
        for page in 0..40 {
            cache.make_clean(page);
        }
        assert!(cache.add(99));
        assert_eq!(cache.lengths().0 + cache.lengths().1, 40);
    }
}
