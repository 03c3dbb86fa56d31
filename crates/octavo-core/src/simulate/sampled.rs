use std::collections::HashMap;

use super::{
    Curve,
    latest::Latest,
    ranks::{Ranks, STEP},
};

/// Groups of sampled pages, from which the error is estimated.
const GROUPS: u32 = 32;
/// Every so many accesses of a batch, one is examined for hot pages.
const GLANCE: usize = 32;
/// A page with this fraction of a batch's accesses is hot.
const HOT: f64 = 0.0005;
/// The fewest examined accesses that are meaningful.
const FEWEST_GLANCES: usize = 1000;
const MOST_HOT: usize = 4096;
const ROOM: usize = 3;
const HINT_BITS: u32 = 17;

/// Word and bit in `may_be_hot`.
#[inline]
const fn hint(mixed: u32) -> (usize, u64) {
    (
        (mixed >> 6) as usize & ((1 << (HINT_BITS - 6)) - 1),
        1 << (mixed & 63),
    )
}

/// Which pages are in a sample: those whose hashed number is in a range.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    start: u32,
    width: u32,
    seed: u32,
}

impl Filter {
    /// About this fraction of all pages; another seed selects other pages. Rates from 1 on take every page.
    #[must_use]
    pub fn new(rate: f64, seed: u32) -> Self {
        Self {
            start: 0,
            width: (rate * f64::from(1_u32 << 31) * 2.0) as u32,
            seed: seed.wrapping_mul(0x9e37_79b9),
        }
    }

    /// One of `parts` disjoint samples, which together are that of `new`: the one with the number `part`, from 0 on.
    #[must_use]
    pub fn part(rate: f64, seed: u32, part: u32, parts: u32) -> Self {
        if parts <= 1 {
            return Self::new(rate, seed);
        }
        let whole = (rate.clamp(0.0, 1.0) * f64::from(1_u32 << 31) * 2.0) as u64;
        let at = |part: u32| (whole * u64::from(part) / u64::from(parts)) as u32;
        Self {
            start: at(part),
            // The end of the last part of all pages is 2^32, which is 0 here.
            width: at(part + 1).wrapping_sub(at(part)),
            seed: seed.wrapping_mul(0x9e37_79b9),
        }
    }

    /// The rate to the precision of 32 bits.
    #[must_use]
    pub fn rate(self) -> f64 {
        if self.width == u32::MAX {
            1.0
        } else {
            f64::from(self.width) / f64::from(1_u32 << 31) / 2.0
        }
    }

    /// The page's hashed number if it is in the sample.
    #[inline]
    #[must_use]
    pub fn takes(self, page: u32) -> Option<u32> {
        let mixed = self.mix(page);
        self.has(mixed).then_some(mixed)
    }

    #[inline]
    const fn has(self, mixed: u32) -> bool {
        mixed.wrapping_sub(self.start) < self.width || self.width == u32::MAX
    }

    /// The finalizer of MurmurHash3, which is in the public domain.
    #[inline]
    const fn mix(self, page: u32) -> u32 {
        let mut mixed = page ^ self.seed;
        mixed ^= mixed >> 16;
        mixed = mixed.wrapping_mul(0x85eb_ca6b);
        mixed ^= mixed >> 13;
        mixed = mixed.wrapping_mul(0xc2b2_ae35);
        mixed ^ mixed >> 16
    }
}

/// Distances from 0 on in 64 steps per octave, each with the number of its accesses.
pub(super) mod scale {
    const STEPS: u32 = 64;

    /// The bin of a distance.
    #[inline]
    pub(crate) fn bin(distance: u32) -> usize {
        if distance < STEPS {
            return distance as usize;
        }
        let shift = (31 - distance.leading_zeros()) - 6;
        ((shift * STEPS) + (distance >> shift)) as usize
    }

    /// The first distance of a bin.
    pub(crate) fn start(bin: usize) -> u64 {
        let bin = bin as u64;
        let steps = u64::from(STEPS);
        if bin < steps {
            bin
        } else {
            (bin % steps + steps) << (bin / steps - 1)
        }
    }

    pub(crate) const BINS: usize = (27 * STEPS) as usize;
}

/// LRU stack distances of a sample of the pages: SHARDS with a fixed rate (Waldspurger et al., FAST 2015).
///
/// A few pages get a large part of all accesses, such as the roots of indexes: their being in a sample by chance would
/// determine the result for small caches. So all hot pages are taken, and count once; the others also represent the
/// pages outside the sample. Capacities of fewer than ten sampled pages are not resolved.
pub struct SampledDistances {
    filter: Filter,
    latest: Latest,
    page_at: Vec<u32>,
    sampled: Ranks,
    hot: Ranks,
    is_hot: Vec<u64>,
    /// By the lower bits of hashed numbers: whether there may be a hot page. It stays in the first-level cache.
    may_be_hot: Vec<u64>,
    hot_pages: usize,
    now: usize,
    distinct: u64,
    distinct_hot: u64,
    hot_hits: Vec<u64>,
    hot_accesses: u64,
    hits: Vec<Vec<u64>>,
    accesses: Vec<u64>,
}

impl SampledDistances {
    /// With this fraction of the pages.
    #[must_use]
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            latest: Latest::of(filter.rate()),
            page_at: Vec::new(),
            sampled: Ranks::default(),
            hot: Ranks::default(),
            is_hot: Vec::new(),
            may_be_hot: vec![0; 1 << (HINT_BITS - 6)],
            hot_pages: 0,
            now: 0,
            distinct: 0,
            distinct_hot: 0,
            hot_hits: vec![0; scale::BINS],
            hot_accesses: 0,
            hits: vec![vec![0; scale::BINS]; GROUPS as usize],
            accesses: vec![0; GROUPS as usize],
        }
    }

    /// Searches for hot pages among the next accesses.
    pub fn look_ahead(&mut self, pages: impl Iterator<Item = u32>) {
        let mut seen: HashMap<u32, u32> = HashMap::new();
        let mut count = 0;
        for page in pages.step_by(GLANCE) {
            *seen.entry(page).or_default() += 1;
            count += 1;
        }
        if count < FEWEST_GLANCES {
            return;
        }
        let limit = (count as f64 * HOT).max(4.0);
        let mut found: Vec<u32> = seen
            .into_iter()
            .filter(|&(_, times)| f64::from(times) >= limit)
            .map(|(page, _)| page)
            .collect();
        found.sort_unstable();
        for page in found {
            let (word, bit) = (page as usize / 64, 1_u64 << (page % 64));
            if word >= self.is_hot.len() {
                self.is_hot.resize((word + 1).next_power_of_two(), 0);
            }
            if self.is_hot[word] & bit == 0 && self.hot_pages < MOST_HOT {
                self.is_hot[word] |= bit;
                let hint = hint(self.filter.mix(page));
                self.may_be_hot[hint.0] |= hint.1;
                self.hot_pages += 1;
            }
        }
    }

    /// Counts an access if its page is hot or in the sample.
    #[inline]
    pub fn access(&mut self, page: u32) {
        let mixed = self.filter.mix(page);
        let (word, bit) = hint(mixed);
        let may_be_hot = self.may_be_hot[word] & bit != 0;
        if may_be_hot
            && self
                .is_hot
                .get(page as usize / 64)
                .is_some_and(|word| word >> (page % 64) & 1 != 0)
        {
            self.take_hot(page);
        } else if self.filter.has(mixed) {
            self.take(page, (mixed % GROUPS) as usize);
        }
    }

    fn take_hot(&mut self, page: u32) {
        let before = self.place(page);
        if before == 0 {
            // Pages that were outside the sample until they became hot had been accessed before: their distance is not
            // known, and one of many accesses is left out.
            self.distinct_hot += 1;
        } else {
            self.hot_accesses += 1;
            let distance = self.distance(before as usize - 1);
            self.hot_hits[scale::bin(distance)] += 1;
        }
        self.hot.set(self.now);
        self.now += 1;
    }

    fn take(&mut self, page: u32, group: usize) {
        let before = self.place(page);
        self.accesses[group] += 1;
        if before == 0 {
            self.distinct += 1;
        } else {
            let distance = self.distance(before as usize - 1);
            self.hits[group][scale::bin(distance)] += 1;
        }
        self.sampled.set(self.now);
        self.now += 1;
    }

    /// Sets the page's position to the current one, and returns one more than its last position.
    #[inline]
    fn place(&mut self, page: u32) -> u32 {
        if self.now == self.page_at.len() {
            self.renumber();
        }
        self.page_at[self.now] = page;
        self.latest.replace(page, self.now as u32 + 1)
    }

    /// The approximate number of pages accessed since that position, whose bit is cleared.
    #[inline]
    fn distance(&mut self, place: usize) -> u32 {
        let (mut sampled, mut hot) = (0, 0);
        if self.sampled.is_set(place) {
            sampled = self.sampled.clear_and_count_behind(place);
            hot = self.hot.count_behind(place);
        } else if self.hot.is_set(place) {
            hot = self.hot.clear_and_count_behind(place);
            sampled = self.sampled.count_behind(place);
        }
        let distance = f64::from(sampled) / self.filter.rate() + f64::from(hot);
        distance.round().min(f64::from(1_u32 << 31)) as u32
    }

    /// The estimated hit ratio of every capacity; `accesses` are those of the whole trace.
    #[must_use]
    pub fn curve(&self, accesses: u64) -> Curve {
        let pages = self.distinct as f64 / self.filter.rate() + self.distinct_hot as f64;
        let cold = (accesses - self.hot_accesses.min(accesses)) as f64;
        Curve::sampled(
            &self.hot_hits,
            &self.hits,
            &self.accesses,
            accesses,
            cold,
            pages,
            self.filter.rate(),
        )
    }

    fn renumber(&mut self) {
        let old_hot = std::mem::take(&mut self.hot);
        let old_sampled = std::mem::take(&mut self.sampled);
        let mut places: Vec<(usize, bool)> =
            old_sampled.places().map(|place| (place, false)).collect();
        places.extend(old_hot.places().map(|place| (place, true)));
        places.sort_unstable();
        let length = (places.len() * ROOM + 1).next_multiple_of(STEP);
        self.hot = Ranks::with_first_set(length, 0);
        self.sampled = Ranks::with_first_set(length, 0);
        for (place, &(old, is_hot)) in places.iter().enumerate() {
            let page = self.page_at[old];
            self.page_at[place] = page;
            self.latest.replace(page, place as u32 + 1);
            if is_hot {
                self.hot.set(place)
            } else {
                self.sampled.set(place)
            }
        }
        self.now = places.len();
        self.page_at.resize(length, 0);
    }
}

#[cfg(test)]
pub(super) mod tests;
