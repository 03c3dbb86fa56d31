//! A bit set that counts the bits set after a position: with counts of 256, 16,384 and 1,048,576 bits. Setting a bit
//! changes four numbers, counting reads a few cache lines. (A Fenwick tree reads and writes a line for each of its
//! twenty-odd levels.)

const GROUP: usize = 4; // words
const SUPER: usize = 64; // groups
const TOP: usize = 64; // supers

#[derive(Default)]
pub(super) struct Ranks {
    words: Vec<u64>,
    groups: Vec<u16>,
    supers: Vec<u16>,
    tops: Vec<u32>,
}

/// The number of bits in a whole number of supers.
pub(super) const STEP: usize = 64 * GROUP * SUPER;

impl Ranks {
    /// This many bits, a multiple of `STEP`, of which the first `set` are set.
    pub(super) fn with_first_set(length: usize, set: usize) -> Self {
        let words = length / 64;
        let groups = words / GROUP;
        let supers = groups / SUPER;
        let full = |size: usize, place: usize| set.saturating_sub(place * size).min(size);
        Self {
            words: (0..words)
                .map(|word| match full(64, word) {
                    64 => u64::MAX,
                    bits => (1 << bits) - 1,
                })
                .collect(),
            groups: (0..groups)
                .map(|group| full(64 * GROUP, group) as u16)
                .collect(),
            supers: (0..supers).map(|each| full(STEP, each) as u16).collect(),
            tops: (0..supers.div_ceil(TOP))
                .map(|top| full(STEP * TOP, top) as u32)
                .collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len() * 64
    }

    #[inline]
    pub(super) fn set(&mut self, bit: usize) {
        let word = bit / 64;
        self.words[word] |= 1 << (bit % 64);
        self.groups[word / GROUP] += 1;
        self.supers[word / (GROUP * SUPER)] += 1;
        self.tops[word / (GROUP * SUPER * TOP)] += 1;
    }

    #[inline]
    pub(super) fn is_set(&self, bit: usize) -> bool {
        self.words[bit / 64] >> (bit % 64) & 1 != 0
    }

    /// Clears a bit that is set, and returns the number of bits set after it.
    #[inline]
    pub(super) fn clear_and_count_behind(&mut self, bit: usize) -> u32 {
        let word = bit / 64;
        self.words[word] &= !(1 << (bit % 64));
        self.groups[word / GROUP] -= 1;
        self.supers[word / (GROUP * SUPER)] -= 1;
        self.tops[word / (GROUP * SUPER * TOP)] -= 1;
        self.count_behind(bit)
    }

    /// The number of bits set after this one.
    #[inline]
    pub(super) fn count_behind(&self, bit: usize) -> u32 {
        let word = bit / 64;
        let group = word / GROUP;
        let each = group / SUPER;
        let top = each / TOP;
        let mut count = (self.words[word] >> (bit % 64) >> 1).count_ones();
        for word in &self.words[word + 1..(group + 1) * GROUP] {
            count += word.count_ones();
        }
        let mut sum = 0_u16; // a super has 16,384 bits
        for &more in &self.groups[group + 1..(each + 1) * SUPER] {
            sum += more;
        }
        count += u32::from(sum);
        for &more in &self.supers[each + 1..((top + 1) * TOP).min(self.supers.len())] {
            count += u32::from(more);
        }
        for &more in &self.tops[top + 1..] {
            count += more;
        }
        count
    }

    /// The positions of all bits that are set, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(word, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    word * 64 + bit
                })
            })
        })
    }
}
