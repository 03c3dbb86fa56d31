use std::ops::Range;

use crate::{
    simulate::feed::is_change,
    trace::{Kind, Strategy},
};

/// A backend that returns to one of the last this many pages is assumed to be still at the same row.
const RECENT: usize = 8;
/// The most returns that count for each pair of pages, so that a few hot pairs do not dominate.
const MOST_RETURNS: u8 = 16;
/// The smallest uncertainty of how often accesses return to a part of a page: a twentieth.
const LEAST_DOUBT: u64 = (1 << 32) / 20;
const NEVER: u8 = u8::MAX;

/// The part of a page that an access needs, if the trace does not contain it: how often accesses of two neighbouring
/// pages return to the page that was accessed last is counted by relation, and parts of a page are assumed to be
/// returned to as often.
///
/// The same is counted for pairs of pairs. The difference of the two is the uncertainty for parts of a page, in either
/// direction.
pub struct SelfSimilar {
    parts: u8,
    lean: Lean,
    /// By page: the part that was accessed last.
    last: Vec<u8>,
    pairs: Returns,
    pairs_of_pairs: Returns,
    /// By backend: its last pages, each with the number of its visit.
    recent: Vec<[(u32, u32); RECENT]>,
    random: u64,
}

/// Which end of the likely range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lean {
    /// Neither.
    #[default]
    Even,
    /// Accesses return to a part more often.
    Together,
    /// Accesses return to a part less often.
    Apart,
}

/// Returns to two neighbours.
#[derive(Default)]
struct Returns {
    /// By pair: the half that was accessed last, and 2 for each return that was counted.
    pairs: Vec<u8>,
    /// By stream: returns, and those of them to the same half.
    counts: Vec<(u64, u64)>,
}

impl Returns {
    /// Counts a return to the pair at a position. Returns how often accesses stay with a half, of 2^32.
    fn learn(&mut self, place: u32, stream: u32) -> u64 {
        let (pair, stream) = ((place >> 1) as usize, stream as usize);
        if pair >= self.pairs.len() {
            self.pairs.resize((pair + 1).next_power_of_two(), NEVER);
        }
        if stream >= self.counts.len() {
            self.counts.resize(stream + 1, (0, 0));
        }
        let (half, pair) = ((place & 1) as u8, &mut self.pairs[pair]);
        let counts = &mut self.counts[stream];
        if *pair == NEVER {
            *pair = half;
        } else {
            let counted = *pair >> 1;
            if counted < MOST_RETURNS {
                counts.0 += 1;
                counts.1 += u64::from(*pair & 1 == half);
            }
            *pair = half | (counted + 1).min(MOST_RETURNS) << 1;
        }
        // As if one return had stayed and one had not, before there are any.
        ((counts.1 + 1) << 32) / (counts.0 + 2)
    }
}

impl SelfSimilar {
    /// With pages of 2 to 32 parts, a power of two.
    #[must_use]
    pub fn new(parts: u8, lean: Lean) -> Self {
        Self {
            parts,
            lean,
            last: Vec::new(),
            pairs: Returns::default(),
            pairs_of_pairs: Returns::default(),
            recent: Vec::new(),
            random: 1,
        }
    }

    pub(super) const fn parts(&self) -> u8 {
        self.parts
    }

    /// The parts that an access needs: one, or all if a backend goes on to the next page or adds a new one. `visit` is
    /// the number of the backend's pages so far, including those outside the sample.
    pub(super) fn part(
        &mut self,
        page: u32,
        how: u8,
        stream: u32,
        (backend, visit): (u32, u32),
    ) -> Range<u8> {
        let number = page as usize;
        if number >= self.last.len() {
            self.last.resize((number + 1).next_power_of_two(), NEVER);
        }
        let before = self.last[number];
        if is_change(how) && before != NEVER {
            return before..before + 1;
        }
        if Strategy::of(how) != Strategy::Normal || Kind::of(how) == Kind::Extend {
            self.last[number] = 0;
            return 0..self.parts;
        }
        let place = backend as usize;
        if place >= self.recent.len() {
            self.recent.resize(place + 1, [(u32::MAX, 0); RECENT]);
        }
        let recent = &mut self.recent[place];
        let since = |then: u32| visit.wrapping_sub(then);
        let is_same_visit = recent
            .iter()
            .any(|&(one, then)| one == page && since(then) <= RECENT as u32);
        let (last, then) = recent[RECENT - 1];
        let goes_on = page > 0 && last == page - 1 && since(then) <= 1;
        if last != page {
            recent.rotate_left(1);
        }
        recent[RECENT - 1] = (page, visit);
        if is_same_visit && before != NEVER {
            return before..before + 1;
        }
        let stays = self.learn(page, stream);
        if goes_on {
            self.last[number] = self.parts - 1;
            return 0..self.parts;
        }
        let part = self.next(before, stays);
        self.last[number] = part;
        part..part + 1
    }

    /// Counts an access. Returns how often accesses stay with a half of a page, of 2^32.
    fn learn(&mut self, page: u32, stream: u32) -> u64 {
        let pairs = self.pairs.learn(page, stream);
        let further = self.pairs_of_pairs.learn(page >> 1, stream);
        let doubt = pairs.abs_diff(further).max(LEAST_DOUBT);
        match self.lean {
            Lean::Even => pairs,
            Lean::Together => (pairs + doubt).min(1 << 32),
            Lean::Apart => pairs.saturating_sub(doubt),
        }
    }

    /// Descends from the halves of a page to its parts: each time the access either stays with the half of the previous
    /// part, or it does not, and then nothing is known about the parts within the other half.
    fn next(&mut self, before: u8, stays: u64) -> u8 {
        let mut part = 0;
        let mut knows = before != NEVER;
        let mut half = self.parts / 2;
        while half > 0 {
            let draw = self.draw();
            let chosen = if knows {
                let same = draw < stays;
                knows = same;
                (before & half != 0) == same
            } else {
                draw < 1 << 31
            };
            part |= if chosen { half } else { 0 };
            half /= 2;
        }
        part
    }

    /// 32 random bits (splitmix64: Steele, Lea and Flood, OOPSLA 2014).
    const fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returns(pages: impl Iterator<Item = u32>) -> (SelfSimilar, f64) {
        let mut similar = SelfSimilar::new(2, Lean::Even);
        let (mut same, mut all) = (0, 0);
        for (turn, page) in pages.enumerate() {
            let before = similar.last.get(page as usize).copied().unwrap_or(NEVER);
            // Separate backends: none returns to a row.
            let part = similar
                .part(page, 0, 0, (turn as u32 % 1000, 1 + turn as u32 / 1000))
                .start;
            if before != NEVER {
                all += 1;
                same += u32::from(part == before);
            }
        }
        (similar, f64::from(same) / f64::from(all.max(1)))
    }

    #[test]
    fn evenly_accessed_pages_have_evenly_accessed_parts() {
        let mut source = SelfSimilar::new(2, Lean::Even);
        let (_, same) = returns((0..60_000).map(|_| (source.draw() % 4096) as u32));
        assert!((same - 0.5).abs() < 0.02, "{same}");
    }

    #[test]
    fn where_one_page_of_two_is_accessed_so_is_one_part() {
        let mut source = SelfSimilar::new(2, Lean::Even);
        let (_, same) = returns((0..60_000).map(|_| (source.draw() % 4096) as u32 * 2));
        assert!(same > 0.99, "{same}");
    }

    #[test]
    fn it_leans_both_ways() {
        let same = |lean| {
            let (mut similar, mut source) =
                (SelfSimilar::new(2, lean), SelfSimilar::new(2, Lean::Even));
            let mut same = 0;
            for turn in 0..60_000 {
                let page = (source.draw() % 4096) as u32;
                let before = similar.last.get(page as usize).copied();
                let part = similar
                    .part(page, 0, 0, (turn % 1000, 1 + turn / 1000))
                    .start;
                same += u32::from(before == Some(part));
            }
            same
        };
        assert!(same(Lean::Together) > same(Lean::Even) + 1000);
        assert!(same(Lean::Apart) + 1000 < same(Lean::Even));
    }

    #[test]
    fn one_hot_pair_does_not_stand_for_all() {
        let mut source = SelfSimilar::new(2, Lean::Even);
        let pages = (0..90_000).map(|turn| match turn % 3 {
            0 => 9000,
            _ => (source.draw() % 4096) as u32,
        });
        let (similar, _) = returns(pages);
        let (all, same) = similar.pairs.counts[0];
        assert!((same as f64 / all as f64 - 0.5).abs() < 0.02);
    }

    #[test]
    fn a_backend_stays_at_its_row_and_changes_it() {
        let mut similar = SelfSimilar::new(8, Lean::Even);
        for page in 0..500 {
            let part = similar.part(page * 7, 0, 0, (3, page));
            assert_eq!(part.len(), 1);
            assert_eq!(similar.part(page * 7, 0, 0, (3, page)), part);
            assert_eq!(similar.part(page * 7, 2, 0, (3, page)), part);
        }
    }

    #[test]
    fn visits_of_pages_that_are_in_no_sample_count() {
        let mut similar = SelfSimilar::new(32, Lean::Apart);
        let first = similar.part(10, 0, 0, (0, 1));
        assert_eq!(similar.part(10, 0, 0, (0, 9)), first, "of the last eight");
        let later: Vec<_> = (2..40)
            .map(|turn| similar.part(10, 0, 0, (0, 9 * turn)))
            .collect();
        assert!(later.iter().any(|part| *part != first));
        assert_eq!(similar.part(20, 0, 0, (0, 500)).len(), 1);
        assert_eq!(similar.part(21, 0, 0, (0, 502)).len(), 1, "others between");
    }

    #[test]
    fn who_goes_on_to_the_next_page_reads_all_of_it_and_so_do_scans() {
        let mut similar = SelfSimilar::new(4, Lean::Even);
        assert_eq!(similar.part(10, 0, 0, (0, 1)).len(), 1);
        assert_eq!(similar.part(11, 0, 0, (0, 2)), 0..4);
        assert_eq!(similar.part(99, 1 << 4, 0, (0, 2)), 0..4);
        assert_eq!(similar.part(50, 1, 0, (0, 2)), 0..4);
    }
}
