//! The textbook policies at one capacity, each as in libCacheSim, for comparison.

const NONE: u32 = u32::MAX;

/// A cache of a fixed number of pages.
pub trait Cache {
    /// Accesses a page, which is in the cache afterwards. Returns whether it was there before.
    fn access(&mut self, page: u32) -> bool;
}

fn slot(table: &mut Vec<u32>, page: u32) -> &mut u32 {
    let page = page as usize;
    if page >= table.len() {
        table.resize((page + 1).next_power_of_two(), NONE);
    }
    &mut table[page]
}

/// First in, first out.
pub struct Fifo {
    slot_of: Vec<u32>,
    page_in: Vec<u32>,
    next: usize,
}

impl Fifo {
    /// An empty cache of at least one page.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self {
            slot_of: Vec::new(),
            page_in: vec![NONE; capacity.max(1) as usize],
            next: 0,
        }
    }
}

impl Cache for Fifo {
    #[inline]
    fn access(&mut self, page: u32) -> bool {
        let slot = slot(&mut self.slot_of, page);
        if *slot != NONE {
            return true;
        }
        *slot = self.next as u32;
        let out = std::mem::replace(&mut self.page_in[self.next], page);
        if out != NONE {
            self.slot_of[out as usize] = NONE;
        }
        self.next = (self.next + 1) % self.page_in.len();
        false
    }
}

/// FIFO in which a page that was accessed since the hand passed it gets another round (one bit).
pub struct Clock {
    slot_of: Vec<u32>,
    page_in: Vec<u32>,
    accessed: Vec<bool>,
    hand: usize,
}

impl Clock {
    /// An empty cache of at least one page.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1) as usize;
        Self {
            slot_of: Vec::new(),
            page_in: vec![NONE; capacity],
            accessed: vec![false; capacity],
            hand: 0,
        }
    }
}

impl Cache for Clock {
    #[inline]
    fn access(&mut self, page: u32) -> bool {
        let slot = slot(&mut self.slot_of, page);
        if *slot != NONE {
            self.accessed[*slot as usize] = true;
            return true;
        }
        while std::mem::replace(&mut self.accessed[self.hand], false) {
            self.hand = (self.hand + 1) % self.page_in.len();
        }
        *slot = self.hand as u32;
        let out = std::mem::replace(&mut self.page_in[self.hand], page);
        if out != NONE {
            self.slot_of[out as usize] = NONE;
        }
        self.hand = (self.hand + 1) % self.page_in.len();
        false
    }
}

/// The least recently used page is evicted first.
pub struct Lru {
    slot_of: Vec<u32>,
    page_in: Vec<u32>,
    /// By slot: the neighbours in the order of access; an additional slot is between the oldest and the newest.
    newer: Vec<u32>,
    older: Vec<u32>,
    used: u32,
}

impl Lru {
    /// An empty cache of at least one page.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1) as usize;
        let mut neighbours = vec![NONE; capacity + 1];
        neighbours[capacity] = capacity as u32;
        Self {
            slot_of: Vec::new(),
            page_in: vec![NONE; capacity],
            newer: neighbours.clone(),
            older: neighbours,
            used: 0,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let (newer, older) = (self.newer[slot as usize], self.older[slot as usize]);
        self.older[newer as usize] = older;
        self.newer[older as usize] = newer;
    }

    fn make_newest(&mut self, slot: u32) {
        let end = self.page_in.len() as u32;
        let newest = self.older[end as usize];
        self.older[slot as usize] = newest;
        self.newer[slot as usize] = end;
        self.newer[newest as usize] = slot;
        self.older[end as usize] = slot;
    }
}

impl Cache for Lru {
    #[inline]
    fn access(&mut self, page: u32) -> bool {
        let found = *slot(&mut self.slot_of, page);
        if found != NONE {
            self.unlink(found);
            self.make_newest(found);
            return true;
        }
        let slot = if (self.used as usize) < self.page_in.len() {
            self.used += 1;
            self.used - 1
        } else {
            let oldest = self.newer[self.page_in.len()];
            self.unlink(oldest);
            self.slot_of[self.page_in[oldest as usize] as usize] = NONE;
            oldest
        };
        self.page_in[slot as usize] = page;
        self.slot_of[page as usize] = slot;
        self.make_newest(slot);
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{super::StackDistances, *};

    /// With lists, by the definitions of the policies. The oldest page is the first one.
    fn naive(policy: &str, capacity: usize, pages: &[u32]) -> Vec<bool> {
        let mut list: Vec<(u32, bool)> = Vec::new();
        pages
            .iter()
            .map(|&page| {
                if let Some(place) = list.iter().position(|entry| entry.0 == page) {
                    list[place].1 = true;
                    if policy == "lru" {
                        let entry = list.remove(place);
                        list.push(entry);
                    }
                    return true;
                }
                if list.len() == capacity {
                    while policy == "clock" && list[0].1 {
                        let (again, _) = list.remove(0);
                        list.push((again, false));
                    }
                    list.remove(0);
                }
                list.push((page, false));
                false
            })
            .collect()
    }

    proptest! {
        #[test]
        fn hits_are_those_of_the_definition(pages in vec(0_u32..30, 0..400), capacity in 1_u32..35) {
            let run = |cache: &mut dyn Cache| pages.iter().map(|&page| cache.access(page)).collect::<Vec<_>>();
            prop_assert_eq!(run(&mut Fifo::new(capacity)), naive("fifo", capacity as usize, &pages));
            prop_assert_eq!(run(&mut Lru::new(capacity)), naive("lru", capacity as usize, &pages));
            prop_assert_eq!(run(&mut Clock::new(capacity)), naive("clock", capacity as usize, &pages));
        }

        #[test]
        fn one_pass_tells_the_hits_of_every_lru_cache(pages in vec(0_u32..50, 0..400)) {
            let mut stack = StackDistances::new();
            for &page in &pages {
                stack.access(page);
            }
            let curve = stack.curve(pages.len() as u64);
            for capacity in 1..55 {
                let mut cache = Lru::new(capacity);
                let hits = pages.iter().filter(|&&page| cache.access(page)).count() as u64;
                prop_assert_eq!(curve.hits(capacity.into()), hits);
            }
        }
    }
}
