use super::{
    Curve,
    ranks::{Ranks, STEP},
    study::touch,
};

/// Positions for accesses are allocated for this many times the number of pages, so that renumbering is rare.
const ROOM: usize = 3;

/// Exact LRU stack distances (Mattson et al., IBM Systems Journal 9(2), 1970): one pass gives the hits of every
/// capacity. An access hits an LRU cache of n pages when fewer than n other pages were accessed since the last time.
///
/// Each page's latest access is a bit in the order of time; the distance is the number of bits after the page's own.
/// Memory: 4 bytes per page number, and about 15 bytes per accessed page.
#[derive(Default)]
pub struct StackDistances {
    /// By page: one more than the position of its latest access; 0 for never.
    latest: Vec<u32>,
    bits: Ranks,
    /// By position: the page.
    page_at: Vec<u32>,
    now: usize,
    distinct: usize,
    hits: Vec<u64>,
}

impl StackDistances {
    /// Without any access.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts an access. Returns the number of other pages since the last one of this page, None for the first.
    #[inline]
    pub fn access(&mut self, page: u32) -> Option<u32> {
        let distance = self.distance(page);
        if let Some(distance) = distance {
            self.count(distance);
        }
        distance
    }

    /// Prefetches the entries of pages that will be accessed soon.
    #[inline]
    pub(super) fn touch(&self, pages: impl Iterator<Item = u32>) {
        touch(&self.latest, pages);
    }

    /// The same without counting the access.
    #[inline]
    fn distance(&mut self, page: u32) -> Option<u32> {
        if self.now == self.bits.len() {
            self.renumber();
        }
        let page_number = page as usize;
        if page_number >= self.latest.len() {
            self.latest.resize((page_number + 1).next_power_of_two(), 0);
        }
        let before = std::mem::replace(&mut self.latest[page_number], self.now as u32 + 1);
        let distance = if before == 0 {
            self.distinct += 1;
            None
        } else {
            Some(self.bits.clear_and_count_behind(before as usize - 1))
        };
        self.bits.set(self.now);
        self.page_at[self.now] = page;
        self.now += 1;
        distance
    }

    #[inline]
    fn count(&mut self, distance: u32) {
        let distance = distance as usize;
        if distance >= self.hits.len() {
            self.hits.resize((distance + 1).next_power_of_two(), 0);
        }
        self.hits[distance] += 1;
    }

    /// The number of pages that were accessed.
    #[must_use]
    pub const fn distinct(&self) -> usize {
        self.distinct
    }

    /// Accesses of pages that were accessed before, by distance.
    #[must_use]
    pub fn hits(&self) -> &[u64] {
        &self.hits
    }

    /// The hit ratio of every capacity.
    #[must_use]
    pub fn curve(&self, accesses: u64) -> Curve {
        Curve::exact(&self.hits, accesses, self.distinct as u64)
    }

    /// Renumbers the latest accesses from the first position on, in their order.
    fn renumber(&mut self) {
        for (place, old) in self.bits.places().enumerate() {
            let page = self.page_at[old];
            self.page_at[place] = page;
            self.latest[page as usize] = place as u32 + 1;
        }
        self.now = self.distinct;
        let length = (self.distinct * ROOM + 1).next_multiple_of(STEP);
        self.bits = Ranks::with_first_set(length, self.distinct);
        self.page_at.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A list of pages, the latest first.
    pub(crate) fn naive(pages: &[u32]) -> Vec<Option<u32>> {
        let mut stack: Vec<u32> = Vec::new();
        pages
            .iter()
            .map(|&page| {
                let found = stack.iter().position(|&other| other == page);
                if let Some(place) = found {
                    stack.remove(place);
                }
                stack.insert(0, page);
                found.map(|place| place as u32)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_list(pages in vec(0_u32..60, 0..800)) {
            let mut stack = StackDistances::new();
            let found: Vec<_> = pages.iter().map(|&page| stack.access(page)).collect();
            prop_assert_eq!(found, naive(&pages));
        }
    }

    #[test]
    fn renumbering_keeps_the_order() {
        // Three renumberings, with distances over groups, supers and tops.
        let mut stack = StackDistances::new();
        let pages = 700_000_u32;
        for round in 0..4 {
            for page in 0..pages {
                let expected = (round > 0).then_some(pages - 1);
                assert_eq!(stack.access(page), expected);
            }
        }
        for page in (0..pages).rev() {
            assert_eq!(stack.access(page), Some(pages - 1 - page));
        }
        assert_eq!(stack.distinct(), 700_000);
        assert_eq!(stack.hits().iter().sum::<u64>(), 4 * 700_000);
    }
}
