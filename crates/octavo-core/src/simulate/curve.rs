use super::sampled::scale;

/// Hit ratios of an LRU cache by its capacity in pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    accesses: u64,
    pages: f64,
    hits: Hits,
}

#[derive(Clone, Debug, PartialEq)]
enum Hits {
    /// By capacity: 1, 2, 3 …
    Exact(Vec<u64>),
    Sampled {
        /// Hits of hot pages, all of which are counted, at a distance below each bin's start.
        hot: Vec<u64>,
        /// The same for each group of the sampled pages.
        groups: Vec<Vec<u64>>,
        rate: f64,
        /// The number of accesses of each group above the expected one.
        surplus: Vec<f64>,
    },
}

fn cumulated(counts: &[u64]) -> Vec<u64> {
    let end = counts
        .iter()
        .rposition(|&count| count > 0)
        .map_or(0, |place| place + 1);
    let mut sum = 0;
    counts[..end]
        .iter()
        .map(|count| {
            sum += count;
            sum
        })
        .collect()
}

impl Curve {
    pub(super) fn exact(hits: &[u64], accesses: u64, pages: u64) -> Self {
        Self {
            accesses,
            pages: pages as f64,
            hits: Hits::Exact(cumulated(hits)),
        }
    }

    /// From hot pages and from a sample of the others: hits by bins of distances, the sampled accesses of each group,
    /// all accesses of the trace and those of pages that are not hot.
    pub(super) fn sampled(
        hot: &[u64],
        groups: &[Vec<u64>],
        sampled: &[u64],
        accesses: u64,
        cold: f64,
        pages: f64,
        rate: f64,
    ) -> Self {
        let expected = cold * rate / groups.len() as f64;
        Self {
            accesses,
            pages,
            hits: Hits::Sampled {
                hot: cumulated(hot),
                groups: groups.iter().map(|group| cumulated(group)).collect(),
                rate,
                surplus: sampled
                    .iter()
                    .map(|&count| count as f64 - expected)
                    .collect(),
            },
        }
    }

    /// The number of pages that were accessed; an estimate if they were sampled.
    #[must_use]
    pub const fn pages(&self) -> f64 {
        self.pages
    }

    /// The number of accesses in the trace, whether sampled or not.
    #[must_use]
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// The hits of a cache of this many pages, rounded to a whole number if pages were sampled.
    #[must_use]
    pub fn hits(&self, capacity: u64) -> u64 {
        match &self.hits {
            Hits::Exact(hits) => {
                let place = usize::try_from(capacity)
                    .unwrap_or(usize::MAX)
                    .min(hits.len());
                if place == 0 { 0 } else { hits[place - 1] }
            }
            Hits::Sampled { .. } => {
                (self.hit_ratio(capacity) * self.accesses as f64).round() as u64
            }
        }
    }

    /// The fraction of all accesses that hit a cache of this many pages.
    #[must_use]
    pub fn hit_ratio(&self, capacity: u64) -> f64 {
        self.estimate(capacity).0
    }

    /// The standard error of `hit_ratio`, from the differences between the groups of sampled pages; 0 without sampling.
    #[must_use]
    pub fn standard_error(&self, capacity: u64) -> f64 {
        self.estimate(capacity).1
    }

    /// The hit ratio and its standard error.
    ///
    /// A sample has more or fewer accesses than its share. The correction depends on whether the surplus accesses hit
    /// the cache: SHARDS takes the sample's ratio of hits, SHARDS-adj counts all of the surplus as hits (Waldspurger et
    /// al., FAST 2015, section 4.2), which is right for large caches only. Here the groups determine how many hits an
    /// additional access brings at this capacity: a regression estimator (Cochran, Sampling Techniques, 1977, chapter
    /// 7).
    fn estimate(&self, capacity: u64) -> (f64, f64) {
        if self.accesses == 0 || capacity == 0 {
            return (0.0, 0.0);
        }
        let accesses = self.accesses as f64;
        let Hits::Sampled {
            hot,
            groups,
            rate,
            surplus,
            ..
        } = &self.hits
        else {
            return (self.hits(capacity) as f64 / accesses, 0.0);
        };
        let hits: Vec<f64> = groups.iter().map(|group| below(group, capacity)).collect();
        let count = hits.len() as f64;
        let mean = |each: &[f64]| each.iter().sum::<f64>() / count;
        let (middle, surplus_middle) = (mean(&hits), mean(surplus));
        let square: f64 = surplus
            .iter()
            .map(|each| (each - surplus_middle).powi(2))
            .sum();
        let product: f64 = hits
            .iter()
            .zip(surplus)
            .map(|(each, more)| (each - middle) * (more - surplus_middle))
            .sum();
        let slope = if square > 0.0 {
            (product / square).clamp(0.0, 1.0)
        } else {
            1.0
        };
        let cold = (middle - slope * surplus_middle) * count / rate;
        let rest: f64 = hits
            .iter()
            .zip(surplus)
            .map(|(each, more)| (each - middle - slope * (more - surplus_middle)).powi(2))
            .sum();
        let error = if *rate >= 1.0 {
            0.0
        } else {
            (rest / (count - 1.0) * count).sqrt() / rate
        };
        (
            ((below(hot, capacity) + cold) / accesses).clamp(0.0, 1.0),
            error / accesses,
        )
    }
}

/// Hits at distances below the capacity; within a bin they are assumed to be uniformly distributed.
fn below(cumulated: &[u64], capacity: u64) -> f64 {
    let bin = scale::bin(u32::try_from(capacity).unwrap_or(u32::MAX));
    let at = |bin: usize| match (bin, cumulated.len()) {
        (0, _) | (_, 0) => 0.0,
        (bin, length) => cumulated[bin.min(length) - 1] as f64,
    };
    let (start, end) = (scale::start(bin) as f64, scale::start(bin + 1) as f64);
    let part = ((capacity as f64 - start) / (end - start)).clamp(0.0, 1.0);
    at(bin) + (at(bin + 1) - at(bin)) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_of_n_pages_hits_distances_below_n() {
        let curve = Curve::exact(&[5, 0, 3, 0, 0], 10, 2);
        assert_eq!(
            [0, 1, 2, 3, 4, 1 << 40].map(|pages| curve.hits(pages)),
            [0, 5, 5, 8, 8, 8]
        );
        assert_eq!(curve.hit_ratio(3), 0.8);
        assert_eq!(curve.standard_error(3), 0.0);
    }

    #[test]
    fn a_surplus_counts_as_far_as_it_brings_hits() {
        // Half of the pages sampled, 12 of 20 accesses: two too many. A group's surplus consists of hits of three
        // pages.
        let curve = Curve::sampled(
            &[],
            &[vec![3, 0, 3], vec![3, 0, 1]],
            &[7, 5],
            20,
            20.0,
            4.0,
            0.5,
        );
        assert_eq!(curve.hit_ratio(1), 6.0 / 10.0);
        assert_eq!(curve.hit_ratio(3), (10.0 - 2.0) / 10.0);
        assert_eq!(curve.standard_error(3), 0.0);
        let uneven = Curve::sampled(
            &[],
            &[vec![5], vec![1], vec![4]],
            &[5, 5, 5],
            30,
            30.0,
            4.0,
            0.5,
        );
        assert!(uneven.standard_error(1) > 0.0);
    }

    #[test]
    fn hot_pages_count_once() {
        let curve = Curve::sampled(&[0, 6], &[vec![2], vec![2]], &[2, 2], 14, 8.0, 4.0, 0.5);
        assert_eq!(curve.hit_ratio(1), 8.0 / 14.0);
        assert_eq!(curve.hit_ratio(2), 1.0);
    }

    #[test]
    fn nothing_accessed_is_no_hit() {
        assert_eq!(Curve::exact(&[], 0, 0).hit_ratio(10), 0.0);
        assert_eq!(
            Curve::sampled(&[], &[vec![], vec![]], &[0, 0], 0, 0.0, 0.0, 0.1).hit_ratio(10),
            0.0
        );
    }
}
