//! A seeded random order of 0 … n-1 in constant memory: each number exactly once.

/// A bijection of `0..n` onto itself.
///
/// Odd multiplication, addition and `x ^= x >> s` are bijections of the numbers of b bits; a result that is n or more
/// is mapped again until it is below n ("cycle walking": J. Black, P. Rogaway, *Ciphers with Arbitrary Finite Domains*,
/// 2002), which takes less than two steps on average.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// The order of `0..n` for this seed.
    #[must_use]
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let mut state = seed;
        Self {
            n,
            mask: u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0),
            shift: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| split_mix(&mut state)),
        }
    }

    /// The number at this position of the order; `place` is below n.
    #[must_use]
    #[inline]
    pub fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.n);
        let mut number = place;
        loop {
            for key in self.keys {
                number = number.wrapping_mul(key | 1).wrapping_add(key >> 32) & self.mask;
                number ^= number >> self.shift;
            }
            if number < self.n {
                return number;
            }
        }
    }
}

/// The next number of splitmix64 (G. Steele, D. Lea, C. Flood, *Fast Splittable Pseudorandom Number Generators*, 2014).
pub(super) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_comes_once(n in 1_u64..3000, seed: u64) {
            let permutation = Permutation::new(n, seed);
            let mut numbers: Vec<u64> = (0..n).map(|place| permutation.at(place)).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..n).collect::<Vec<_>>());
        }
    }

    /// Neighbours are mapped far apart: the mean distance of two random positions is a third of the range.
    #[test]
    fn the_order_looks_random() {
        let n = 100_000;
        for seed in 0..5 {
            let permutation = Permutation::new(n, seed);
            let distance: u64 = (1..n)
                .map(|place| permutation.at(place).abs_diff(permutation.at(place - 1)))
                .sum();
            let mean = distance / (n - 1);
            assert!((n / 4..n / 2).contains(&mean), "seed {seed}: {mean}");
        }
    }

    #[test]
    fn another_seed_is_another_order() {
        let [first, second] = [1, 2].map(|seed| Permutation::new(1000, seed));
        assert!((0..1000).any(|place| first.at(place) != second.at(place)));
    }
}
