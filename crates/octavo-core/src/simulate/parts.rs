//! A fraction of a trace's pages as several smaller traces.

use super::pages::Numbers;

/// The largest group of neighbouring extents of which each smaller trace has one.
const LARGEST: u32 = 64;

/// Which pages of a trace are simulated: all of them, or several disjoint samples (replicates), each of which is a
/// trace of its own, smaller by the same factor. Servers with caches that are smaller by this factor do with a
/// replicate what full-size ones do with all pages (miniature simulation: Waldspurger et al., USENIX ATC 2017), and the
/// differences between the replicates give the error (interpenetrating samples: Mahalanobis 1946).
///
/// The unit of sampling is an extent of 64 blocks, so that blocks of all sizes, neighbours that are written together,
/// and readahead keep their surroundings. Of each `scale` successive extents a replicate has one, drawn at random, and
/// it becomes the next extent of a smaller file: so a scan remains a scan, and a file grows at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    scale: u32,
    replicates: u32,
}

impl Default for Sample {
    /// All pages.
    fn default() -> Self {
        Self {
            scale: 1,
            replicates: 1,
        }
    }
}

impl Sample {
    /// `replicates` samples, each with a `scale`-th of the pages: a power of two up to 64. None if there cannot be so
    /// many.
    #[must_use]
    pub fn new(replicates: u32, scale: u32) -> Option<Self> {
        let is_possible = scale.is_power_of_two() && scale <= LARGEST;
        (is_possible && (1..=scale).contains(&replicates)).then_some(Self { scale, replicates })
    }

    /// The number of smaller traces.
    #[must_use]
    pub const fn replicates(self) -> usize {
        self.replicates as usize
    }

    /// A replicate has one of this many pages.
    #[must_use]
    pub const fn scale(self) -> u64 {
        self.scale as u64
    }

    /// The replicate that contains a block, and the block's number there.
    #[inline]
    pub(super) fn place(self, stream: u32, block: u64) -> Option<(usize, u64)> {
        if self.scale == 1 {
            return Some((0, block));
        }
        let extent = block >> Numbers::CHUNK_BITS;
        let group = extent >> self.scale.trailing_zeros();
        let rank = self.rank(stream, group, extent as u32 & (self.scale - 1));
        let within = block & u64::from(Numbers::IN_CHUNK);
        (rank < self.replicates).then_some((rank as usize, group << Numbers::CHUNK_BITS | within))
    }

    /// The number of a stream's blocks in a replicate.
    pub(super) fn length(self, stream: u32, blocks: u64, replicate: usize) -> u64 {
        if self.scale == 1 {
            return blocks;
        }
        let extent = 1_u64 << Numbers::CHUNK_BITS;
        let group = blocks / (extent * self.scale());
        let rest = blocks % (extent * self.scale());
        let drawn = (0..self.scale)
            .find(|&place| self.rank(stream, group, place) == replicate as u32)
            .map_or(0, u64::from);
        group * extent + rest.saturating_sub(drawn * extent).min(extent)
    }

    /// The extents of a group in random order: a permutation of 0 to `scale` - 1 per group.
    #[inline]
    fn rank(self, stream: u32, group: u64, place: u32) -> u32 {
        // The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
        let mut bits = group
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(u64::from(stream).wrapping_mul(0xd1b5_4a32_d192_ed03));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let [first, factor, second] = [bits as u32, (bits >> 16) as u32, (bits >> 32) as u32];
        let mut place = (place ^ first) & (self.scale - 1);
        // Odd factors and shifts are permutations of numbers with this many bits.
        place ^= place >> 1;
        (place.wrapping_mul(factor | 1) ^ second) & (self.scale - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn replicates_are_disjoint_files_without_gaps(
            bits in 0_u32..7, replicates in 1_u32..5, stream in any::<u32>(), blocks in 0_u64..20_000
        ) {
            prop_assume!(replicates <= 1 << bits);
            let sample = Sample::new(replicates, 1 << bits).unwrap();
            let mut found: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
            for block in 0..blocks {
                if let Some((replicate, number)) = sample.place(stream, block) {
                    prop_assert!(found.entry(replicate).or_default().insert(number), "twice");
                }
            }
            for replicate in 0..sample.replicates() {
                let numbers = found.remove(&replicate).unwrap_or_default();
                prop_assert_eq!(numbers.len() as u64, sample.length(stream, blocks, replicate));
                prop_assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "gaps");
            }
            prop_assert!(found.is_empty());
        }
    }

    #[test]
    fn every_extent_is_drawn_as_often() {
        let sample = Sample::new(4, 32).unwrap();
        let mut times = [[0_u32; 32]; 4];
        for extent in 0..32 * 8000_u64 {
            if let Some((replicate, _)) = sample.place(7, extent << Numbers::CHUNK_BITS) {
                times[replicate][extent as usize % 32] += 1;
            }
        }
        for row in times {
            assert_eq!(row.iter().sum::<u32>(), 8000);
            // 250 each are expected; five standard deviations.
            assert!(row.iter().all(|&one| one.abs_diff(250) < 80), "{row:?}");
        }
    }

    #[test]
    fn all_pages_are_one_replicate() {
        assert_eq!(Sample::default().place(3, 12_345), Some((0, 12_345)));
        assert_eq!(Sample::default().length(3, 12_345, 0), 12_345);
        assert_eq!(Sample::new(1, 1), Some(Sample::default()));
        for (replicates, scale) in [(0, 8), (9, 8), (2, 12), (2, 128)] {
            assert_eq!(Sample::new(replicates, scale), None);
        }
    }
}
