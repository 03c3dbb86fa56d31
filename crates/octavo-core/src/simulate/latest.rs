//! The last access of each page of a sample.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// For larger samples an array by page uses less memory than a hash table, which has up to 20 bytes per entry.
const SPARSE_BELOW: f64 = 0.15;

/// By page the position of its last access, from 1 on; 0 for none.
pub(super) enum Latest {
    /// By page number: 4 bytes for each page of the trace.
    Dense(Vec<u32>),
    /// For the pages in the sample only.
    Sparse(HashMap<u32, u32, BuildHasherDefault<Mixing>>),
}

impl Latest {
    /// For a sample of this fraction of the pages.
    pub(super) fn of(rate: f64) -> Self {
        if rate < SPARSE_BELOW {
            Self::Sparse(HashMap::default())
        } else {
            Self::Dense(Vec::new())
        }
    }

    /// Records a position, and returns the previous one.
    #[inline]
    pub(super) fn replace(&mut self, page: u32, place: u32) -> u32 {
        match self {
            Self::Dense(places) => {
                let number = page as usize;
                if number >= places.len() {
                    places.resize((number + 1).next_power_of_two(), 0);
                }
                std::mem::replace(&mut places[number], place)
            }
            Self::Sparse(places) => places.insert(page, place).unwrap_or(0),
        }
    }
}

/// Page numbers are neither secret nor chosen by an attacker: a multiplication mixes them well enough.
#[derive(Default)]
pub(super) struct Mixing(u64);

impl Hasher for Mixing {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn write_u32(&mut self, number: u32) {
        let mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_remember_the_last_place() {
        for mut latest in [Latest::of(0.01), Latest::of(1.0)] {
            assert_eq!(latest.replace(70, 1), 0);
            assert_eq!(latest.replace(3, 2), 0);
            assert_eq!(latest.replace(70, 3), 1);
            assert_eq!(latest.replace(70, 4), 3);
        }
        assert!(matches!(Latest::of(0.01), Latest::Sparse(_)));
    }
}
