//! Page numbers without gaps, so that caches are arrays and not hash tables. 64 neighbouring blocks of the trace get 64
//! successive numbers: shifted right by k they are the numbers of pages of 2^k blocks.

use std::collections::HashMap;

use crate::trace::Stream;

/// Page sizes from the trace's own on: 1, 2, 4 … 64 times.
pub const LEVELS: u32 = 7;

const CHUNK_BITS: u32 = LEVELS - 1;
const NONE: u32 = u32::MAX;
/// Pages split into 32 still have 32-bit numbers.
const MOST_CHUNKS: u32 = 1 << 21;
/// A table by block is no longer than this, or than four times the number of chunks in it.
const FIRST_TABLE: u64 = 16;

#[derive(Default)]
struct Place {
    chunks: Vec<u32>,
    count: u64,
    elsewhere: HashMap<u64, u32>,
}

#[derive(Default)]
pub(super) struct Numbers {
    streams: HashMap<Stream, u32>,
    places: Vec<Place>,
    chunks: u32,
    /// Chunks numbered since the last `take_new`: their streams and positions there, in the order of numbers.
    new: Vec<(u32, u64)>,
}

impl Numbers {
    /// The number of lower bits of a page number that are its position in its chunk.
    pub(super) const CHUNK_BITS: u32 = CHUNK_BITS;
    /// The mask of those bits.
    pub(super) const IN_CHUNK: u32 = (1 << CHUNK_BITS) - 1;

    /// A number for the stream.
    pub(super) fn stream(&mut self, stream: Stream) -> u32 {
        let next = self.places.len() as u32;
        let number = *self.streams.entry(stream).or_insert(next);
        if number == next {
            self.places.push(Place::default());
        }
        number
    }

    /// Makes room for streams that were numbered elsewhere, up to this one.
    pub(super) fn make_room(&mut self, stream: u32) {
        while self.places.len() <= stream as usize {
            self.places.push(Place::default());
        }
    }

    /// The number of a page. None if there are too many: 2^27.
    #[inline]
    pub(super) fn page(&mut self, stream: u32, block: u64) -> Option<u32> {
        let place = &mut self.places[stream as usize];
        let chunk = block >> CHUNK_BITS;
        let known = match place
            .chunks
            .get(usize::try_from(chunk).unwrap_or(usize::MAX))
        {
            Some(&number) if number != NONE => number,
            _ => self.look_further(stream, chunk)?,
        };
        Some(known << CHUNK_BITS | (block as u32 & ((1 << CHUNK_BITS) - 1)))
    }

    /// The number of a page, if it has one.
    pub(super) fn known(&self, stream: u32, block: u64) -> Option<u32> {
        let place = self.places.get(stream as usize)?;
        let chunk = block >> CHUNK_BITS;
        let number = usize::try_from(chunk)
            .ok()
            .and_then(|chunk| place.chunks.get(chunk))
            .filter(|&&number| number != NONE)
            .or_else(|| place.elsewhere.get(&chunk))?;
        Some(number << CHUNK_BITS | (block as u32 & ((1 << CHUNK_BITS) - 1)))
    }

    /// 64 successive numbers that belong to no stream's pages: the first of them. None if there are too many.
    pub(super) fn others(&mut self) -> Option<u32> {
        if self.chunks == MOST_CHUNKS {
            return None;
        }
        self.chunks += 1;
        Some((self.chunks - 1) << CHUNK_BITS)
    }

    /// Appends the streams and positions of chunks that were numbered since the last call to `into`.
    pub(super) fn take_new(&mut self, into: &mut Vec<(u32, u64)>) {
        into.append(&mut self.new);
    }

    /// The same, discarding them.
    pub(super) fn forget_new(&mut self) {
        self.new.clear();
    }

    #[cold]
    fn look_further(&mut self, stream: u32, chunk: u64) -> Option<u32> {
        let place = &mut self.places[stream as usize];
        if let Some(&number) = place.elsewhere.get(&chunk) {
            return Some(number);
        }
        if self.chunks == MOST_CHUNKS {
            return None;
        }
        let number = self.chunks;
        self.chunks += 1;
        self.new.push((stream, chunk));
        place.count += 1;
        if chunk < FIRST_TABLE.max(4 * place.count) {
            let before = place.chunks.len();
            if chunk as usize >= before {
                place
                    .chunks
                    .resize((chunk as usize + 1).next_power_of_two(), NONE);
                let length = place.chunks.len() as u64;
                if !place.elsewhere.is_empty() {
                    let chunks = &mut place.chunks;
                    place.elsewhere.retain(|&other, &mut number| {
                        if other < length {
                            chunks[other as usize] = number;
                        }
                        other >= length
                    });
                }
            }
            place.chunks[chunk as usize] = number;
        } else {
            place.elsewhere.insert(chunk, number);
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn a_number_stands_for_one_page(
            accesses in vec((0_u32..3, prop_oneof![0_u64..400_000, 0_u64..200, any::<u64>()]), 0..600)
        ) {
            let mut numbers = Numbers::default();
            let mut chunks = Vec::new();
            let mut known = HashMap::new();
            let mut taken = HashMap::new();
            for (relation, block) in accesses {
                let stream = numbers.stream(Stream { relation, ..Stream::default() });
                let page = numbers.page(stream, block).unwrap();
                prop_assert_eq!(numbers.known(stream, block), Some(page));
                numbers.take_new(&mut chunks);
                prop_assert_eq!(chunks[(page >> CHUNK_BITS) as usize], (stream, block >> CHUNK_BITS));
                prop_assert_eq!(*known.entry((relation, block)).or_insert(page), page);
                for level in 0..LEVELS {
                    let whole = (level, page >> level);
                    prop_assert_eq!(*taken.entry(whole).or_insert((relation, block >> level)), (relation, block >> level));
                }
            }
        }
    }
}
