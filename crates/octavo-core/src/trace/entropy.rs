//! Symbols encoded with a number of bits that depends on their frequency: range asymmetric numeral systems (Duda,
//! arXiv:1311.2540), one state per column so that columns are decoded at the same time, all in one sequence of 16-bit
//! words. And raw bits, for data without a pattern.

use super::{
    Error,
    bytes::{Cursor, SHORT, put_number},
};

/// Frequencies are fractions of 2^11: a decoding table fits into the first-level cache.
const PRECISION: u32 = 11;
const WHOLE: u32 = 1 << PRECISION;
/// States are at least this, so that a step takes at most one word.
const LOWEST: u32 = 1 << 16;

/// The frequency of each symbol in one context, adjusted so that the sum is `WHOLE` (or 0 if no symbol occurs).
#[derive(Clone)]
pub(super) struct Frequencies([u32; 256]);

impl Frequencies {
    pub(super) fn of(counts: &[u32; 256]) -> Self {
        let total: u64 = counts.iter().copied().map(u64::from).sum();
        let mut parts = [0; 256];
        if total == 0 {
            return Self(parts);
        }
        for (part, &count) in parts.iter_mut().zip(counts) {
            if count > 0 {
                *part = ((u64::from(count) * u64::from(WHOLE) / total) as u32).max(1);
            }
        }
        // Rounding leaves a difference: the most frequent symbols absorb it, which costs least.
        let mut sum: u32 = parts.iter().sum();
        while sum != WHOLE {
            let most = (0..256).max_by_key(|&symbol| parts[symbol]).unwrap_or(0);
            if sum < WHOLE {
                parts[most] += WHOLE - sum;
                sum = WHOLE;
            } else {
                let less = (sum - WHOLE).min(parts[most] / 2);
                parts[most] -= less;
                sum -= less;
            }
        }
        Self(parts)
    }

    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        put_number(
            bytes,
            self.0.iter().filter(|&&part| part > 0).count() as u64,
        );
        for (symbol, &part) in self.0.iter().enumerate() {
            if part > 0 {
                bytes.push(symbol as u8);
                put_number(bytes, part.into());
            }
        }
    }

    fn get(cursor: &mut Cursor<'_>) -> Result<Option<Self>, Error> {
        const WRONG: Error = Error::Malformed("frequencies do not add up");
        let mut parts = [0; 256];
        let count = cursor.number()?;
        let mut sum = 0;
        for _ in 0..count {
            let symbol = usize::from(cursor.byte()?);
            let part = cursor.small()?;
            if part == 0 || part > WHOLE - sum || parts[symbol] != 0 {
                return Err(WRONG);
            }
            parts[symbol] = part;
            sum += part;
        }
        if count > 0 && sum != WHOLE {
            return Err(WRONG);
        }
        Ok((count > 0).then_some(Self(parts)))
    }

    /// For each entry of `WHOLE` the symbol, its frequency and its position in it: 8, 12 and 11 bits.
    fn fill(&self, table: &mut [u32]) {
        let mut slots = table.iter_mut();
        for (symbol, &part) in self.0.iter().enumerate() {
            for (place, slot) in (0..part).zip(&mut slots) {
                *slot = symbol as u32 | part << 8 | place << 20;
            }
        }
    }

    fn starts(&self) -> [u32; 256] {
        let mut sum = 0;
        self.0.map(|part| {
            sum += part;
            sum - part
        })
    }
}

/// A symbol to be written, with its column and its context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub(super) column: u8,
    pub(super) context: u8,
    pub(super) value: u8,
}

/// The words for all symbols, in the order in which they are decoded.
pub(super) fn encode(symbols: &[Symbol], frequencies: &[Frequencies], columns: usize) -> Vec<u16> {
    let starts: Vec<[u32; 256]> = frequencies.iter().map(Frequencies::starts).collect();
    let mut states = vec![LOWEST; columns];
    let mut words = Vec::with_capacity(symbols.len());
    for symbol in symbols.iter().rev() {
        let (context, value) = (usize::from(symbol.context), usize::from(symbol.value));
        let (part, start) = (frequencies[context].0[value], starts[context][value]);
        let state = &mut states[usize::from(symbol.column)];
        if u64::from(*state) >= u64::from(part) << (32 - PRECISION) {
            words.push(*state as u16);
            *state >>= 16;
        }
        *state = ((*state / part) << PRECISION) + *state % part + start;
    }
    for state in states.iter().rev() {
        words.push(*state as u16);
        words.push((*state >> 16) as u16);
    }
    words.reverse();
    words
}

/// Symbols are decoded in the order of encoding. After the last one `is_whole` returns whether the data was complete.
pub(super) struct Decoder<'a, const COLUMNS: usize> {
    /// `WHOLE` entries for each context.
    tables: Vec<u32>,
    states: [u32; COLUMNS],
    words: &'a [u8],
    place: usize,
}

impl<'a, const COLUMNS: usize> Decoder<'a, COLUMNS> {
    pub(super) fn new(cursor: &mut Cursor<'a>, contexts: usize) -> Result<Self, Error> {
        // Contexts that do not occur have a table of zeros: only a malformed frame uses it.
        let mut tables = vec![WHOLE << 8; contexts << PRECISION];
        for table in tables.chunks_exact_mut(WHOLE as usize) {
            if let Some(each) = Frequencies::get(cursor)? {
                each.fill(table);
            }
        }
        let count = cursor.number()?;
        let words = cursor.take(count.checked_mul(2).ok_or(SHORT)?)?;
        let mut decoder = Self {
            tables,
            states: [0; COLUMNS],
            words,
            place: 0,
        };
        for column in 0..COLUMNS {
            let high = decoder.word();
            decoder.states[column] = high << 16 | decoder.word();
        }
        Ok(decoder)
    }

    #[inline]
    fn word(&mut self) -> u32 {
        let found = self
            .words
            .get(self.place..self.place + 2)
            .map_or(0, |word| u32::from(word[0]) | u32::from(word[1]) << 8);
        self.place += 2;
        found
    }

    #[inline]
    pub(super) fn symbol(&mut self, column: usize, context: usize) -> u8 {
        let state = self.states[column];
        let entry = self.tables[context << PRECISION | (state & (WHOLE - 1)) as usize];
        let state = (entry >> 8 & 0xfff)
            .wrapping_mul(state >> PRECISION)
            .wrapping_add(entry >> 20);
        self.states[column] = if state < LOWEST {
            state << 16 | self.word()
        } else {
            state
        };
        entry as u8
    }

    pub(super) fn is_whole(&self) -> bool {
        self.place == self.words.len() && self.states.iter().all(|&state| state == LOWEST)
    }
}

/// Raw bits, the lowest of each number first.
#[derive(Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    pending: u64,
    used: u32,
}

impl BitWriter {
    pub(super) fn put(&mut self, number: u64, bits: u32) {
        if bits > 32 {
            self.put(number & 0xffff_ffff, 32);
            self.put(number >> 32, bits - 32);
            return;
        }
        self.pending |= number << self.used;
        self.used += bits;
        while self.used >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.used -= 8;
        }
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        if self.used > 0 {
            self.bytes.push(self.pending as u8);
        }
        self.bytes
    }
}

/// Reads the bits of a `BitWriter`; zeros after the end, which `is_whole` reports.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl<'a> BitReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, bit: 0 }
    }

    #[inline]
    pub(super) fn get(&mut self, bits: u32) -> u64 {
        if bits > 32 {
            return self.get(32) | self.get(bits - 32) << 32;
        }
        let place = self.bit / 8;
        let word = match self.bytes.get(place..place + 8) {
            Some(eight) => u64::from_le_bytes([
                eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7],
            ]),
            None => self
                .bytes
                .iter()
                .skip(place)
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        let found = word >> (self.bit % 8) & ((1 << bits) - 1);
        self.bit += bits as usize;
        found
    }

    pub(super) fn is_whole(&self) -> bool {
        self.bit.div_ceil(8) == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn symbols() -> impl proptest::strategy::Strategy<Value = Vec<Symbol>> {
        let symbol = (
            0_u8..3,
            0_u8..4,
            prop_oneof![5 => Just(7_u8), 1 => any::<u8>()],
        );
        proptest::collection::vec(
            symbol.prop_map(|(column, context, value)| Symbol {
                column,
                context,
                value,
            }),
            0..3000,
        )
    }

    proptest! {
        #[test]
        fn symbols_come_back(symbols in symbols()) {
            let mut counts = [[0; 256]; 4];
            for symbol in &symbols {
                counts[usize::from(symbol.context)][usize::from(symbol.value)] += 1;
            }
            let frequencies: Vec<_> = counts.iter().map(Frequencies::of).collect();
            let mut bytes = Vec::new();
            for each in &frequencies {
                each.put(&mut bytes);
            }
            let words = encode(&symbols, &frequencies, 3);
            put_number(&mut bytes, words.len() as u64);
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            let mut decoder = Decoder::<3>::new(&mut Cursor(&bytes), 4).unwrap();
            for symbol in &symbols {
                prop_assert_eq!(decoder.symbol(symbol.column.into(), symbol.context.into()), symbol.value);
            }
            prop_assert!(decoder.is_whole());
        }

        #[test]
        fn bits_come_back(numbers in proptest::collection::vec((any::<u64>(), 0_u32..=64), 0..200)) {
            let cut = |(number, bits): (u64, u32)| if bits == 64 { number } else { number & ((1 << bits) - 1) };
            let mut writer = BitWriter::default();
            for &(number, bits) in &numbers {
                writer.put(cut((number, bits)), bits);
            }
            let bytes = writer.end();
            let mut reader = BitReader::new(&bytes);
            for &(number, bits) in &numbers {
                prop_assert_eq!(reader.get(bits), cut((number, bits)));
            }
            prop_assert!(reader.is_whole());
        }
    }

    #[test]
    fn a_frequent_symbol_costs_nearly_nothing() {
        let symbols = vec![
            Symbol {
                column: 0,
                context: 0,
                value: 9
            };
            10_000
        ];
        let mut counts = [0; 256];
        counts[9] = 10_000;
        assert_eq!(encode(&symbols, &[Frequencies::of(&counts)], 1).len(), 2);
    }
}
