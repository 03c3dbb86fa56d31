//! The accesses of a frame as bytes. Each column is predicted from earlier values, and only deviations cost bits.
//!
//! A backend repeats itself: after a stream it goes where it went last time from there, and in an index it starts from
//! the root again. So the next stream is predicted from the backend's stream and the number of its accesses there, and
//! a block either from the last one read at that point or from the backend's own last one, whichever has been nearer so
//! far.

mod model;

use std::collections::HashMap;

use self::model::{Model, RUNS};
use super::{
    Access, Accesses, Error, MOST_IN_A_BLOCK, Stream,
    bytes::{Cursor, put_number},
    entropy::{BitReader, BitWriter, Decoder, Frequencies, Symbol, encode},
};

const BACKEND: usize = 0;
const STREAM: usize = 1;
const BLOCK: usize = 2;
const TIME: usize = 3;
const HOW: usize = 4;
const COLUMNS: usize = 5;

/// The first context of each column, and the total number of contexts.
const CONTEXTS_OF: [usize; COLUMNS] = [0, 1, 17, 29, 31];
const CONTEXTS: usize = 39;

/// Stands for a value that does not fit into a symbol; 32 bits follow.
const ESCAPE: u8 = 255;
/// A difference as a symbol (sign and number of bits), and the bits below the highest.
#[inline]
fn split(difference: i64) -> (u8, u64, u32) {
    if difference == 0 {
        return (0, 0, 0);
    }
    let size = difference.unsigned_abs();
    let bits = 64 - size.leading_zeros();
    let symbol = 2 * bits - u32::from(difference < 0);
    (symbol as u8, size ^ 1 << (bits - 1), bits - 1)
}

#[inline]
fn join(symbol: u8, bits: &mut BitReader<'_>) -> Result<i64, Error> {
    if symbol == 0 {
        return Ok(0);
    }
    let length = u32::from(symbol.div_ceil(2));
    if length > 64 {
        return Err(Error::Malformed("a difference exceeds 64 bits"));
    }
    let size = bits.get(length - 1) | 1 << (length - 1);
    Ok(if symbol % 2 == 1 {
        (size as i64).wrapping_neg()
    } else {
        size as i64
    })
}

/// Collects the accesses of one frame.
pub(super) struct Gatherer {
    accesses: Accesses,
    streams: HashMap<Stream, u32>,
    backends: HashMap<u32, u32>,
    latest: (Stream, u32),
}

impl Gatherer {
    pub(super) fn new() -> Self {
        Self {
            accesses: Accesses::default(),
            streams: HashMap::new(),
            backends: HashMap::new(),
            latest: (Stream::default(), u32::MAX),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.accesses.len()
    }

    pub(super) fn push(&mut self, access: &Access) {
        let accesses = &mut self.accesses;
        if access.stream != self.latest.0 || self.latest.1 == u32::MAX {
            let place = *self.streams.entry(access.stream).or_insert_with(|| {
                accesses.streams.push(access.stream);
                accesses.streams.len() as u32 - 1
            });
            self.latest = (access.stream, place);
        }
        let backend = *self.backends.entry(access.backend).or_insert_with(|| {
            accesses.backends.push(access.backend);
            accesses.backends.len() as u32 - 1
        });
        accesses.time.push(access.time);
        accesses.backend.push(backend);
        accesses.stream.push(self.latest.1);
        accesses.block.push(access.block);
        accesses
            .how
            .push(access.kind.number() | access.strategy.number() << 4);
    }

    /// The payload of a frame with all collected accesses, which are then discarded.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let payload = encode_accesses(&self.accesses);
        self.accesses.clear();
        self.streams.clear();
        self.backends.clear();
        self.latest.1 = u32::MAX;
        payload
    }
}

fn encode_accesses(accesses: &Accesses) -> Vec<u8> {
    let begin = accesses.time.first().copied().unwrap_or(0);
    let mut model = Model::new(accesses.streams.len(), accesses.backends.len(), begin);
    let mut symbols = Vec::with_capacity(accesses.len() * COLUMNS);
    let mut bits = BitWriter::default();
    let mut put = |column: usize, context: usize, value: u8| {
        symbols.push(Symbol {
            column: column as u8,
            context: context as u8,
            value,
        });
    };
    for place in 0..accesses.len() {
        let backend = accesses.backend[place] as usize;
        let stream = accesses.stream[place] as usize;
        let same = backend == model.backend;
        put(
            BACKEND,
            CONTEXTS_OF[BACKEND],
            if same {
                0
            } else {
                small(backend, 1, &mut bits)
            },
        );

        let before = model.who[backend];
        let next = model.points[before.stream * RUNS + before.run].next;
        let rank = next
            .iter()
            .position(|&guess| guess == Some(stream as u32))
            .map(|rank| rank as u8);
        let context = model.stream_context(before);
        put(
            STREAM,
            context,
            rank.unwrap_or_else(|| small(stream, 2, &mut bits)),
        );
        let who = model.enter(backend, before, stream, rank);

        let block = accesses.block[place];
        let (by_place, own, own_is_better, context) = model.guesses(who);
        let guess = if own_is_better { own } else { by_place };
        let (symbol, rest, length) = split(block.wrapping_sub(guess) as i64);
        put(BLOCK, context, symbol);
        bits.put(rest, length);
        model.leave(backend, who, block, (by_place, own), symbol);

        let (symbol, rest, length) = split(accesses.time[place].wrapping_sub(model.time) as i64);
        put(TIME, CONTEXTS_OF[TIME] + usize::from(same), symbol);
        bits.put(rest, length);
        model.time = accesses.time[place];

        put(HOW, model.how_context(stream), accesses.how[place]);
        model.how[stream] = accesses.how[place];
    }

    let mut counts = vec![[0; 256]; CONTEXTS];
    for symbol in &symbols {
        counts[usize::from(symbol.context)][usize::from(symbol.value)] += 1;
    }
    let frequencies: Vec<_> = counts.iter().map(Frequencies::of).collect();
    let words = encode(&symbols, &frequencies, COLUMNS);
    let bits = bits.end();

    let mut payload = Vec::with_capacity(words.len() * 2 + bits.len() + 1024);
    put_number(&mut payload, accesses.streams.len() as u64);
    for stream in &accesses.streams {
        for number in [stream.space, stream.database, stream.relation] {
            put_number(&mut payload, number.into());
        }
        payload.push(stream.fork);
    }
    put_number(&mut payload, accesses.backends.len() as u64);
    for &backend in &accesses.backends {
        put_number(&mut payload, backend.into());
    }
    put_number(&mut payload, begin);
    for each in &frequencies {
        each.put(&mut payload);
    }
    put_number(&mut payload, words.len() as u64);
    payload.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    put_number(&mut payload, bits.len() as u64);
    payload.extend_from_slice(&bits);
    payload
}

/// An index in a table as a symbol from `first` on, or the escape and the index as bits.
fn small(place: usize, first: usize, bits: &mut BitWriter) -> u8 {
    if place + first < usize::from(ESCAPE) {
        (place + first) as u8
    } else {
        bits.put(place as u64, 32);
        ESCAPE
    }
}

#[inline]
fn large(symbol: u8, first: usize, bits: &mut BitReader<'_>) -> usize {
    if symbol == ESCAPE {
        bits.get(32) as usize
    } else {
        usize::from(symbol) - first
    }
}

/// Decodes a frame's payload with `count` accesses into `into`. For any bytes it returns or describes the error.
pub(super) fn decode(payload: &[u8], count: u32, into: &mut Accesses) -> Result<(), Error> {
    into.clear();
    let count = count as usize;
    if count > MOST_IN_A_BLOCK {
        return Err(Error::Malformed("too many accesses"));
    }
    let mut cursor = Cursor(payload);
    let streams = table_length(&mut cursor, count)?;
    for _ in 0..streams {
        into.streams.push(Stream {
            space: cursor.small()?,
            database: cursor.small()?,
            relation: cursor.small()?,
            fork: cursor.byte()?,
        });
    }
    let backends = table_length(&mut cursor, count)?;
    for _ in 0..backends {
        into.backends.push(cursor.small()?);
    }
    let mut model = Model::new(streams, backends, cursor.number()?);
    let mut decoder = Decoder::<COLUMNS>::new(&mut cursor, CONTEXTS)?;
    let length = cursor.number()?;
    let mut bits = BitReader::new(cursor.take(length)?);
    into.time.reserve(count);
    into.backend.reserve(count);
    into.stream.reserve(count);
    into.block.reserve(count);
    into.how.reserve(count);
    for _ in 0..count {
        let symbol = decoder.symbol(BACKEND, CONTEXTS_OF[BACKEND]);
        let same = symbol == 0;
        let backend = if same {
            model.backend
        } else {
            large(symbol, 1, &mut bits)
        };
        let &before = model
            .who
            .get(backend)
            .ok_or(Error::Malformed("unknown backend"))?;

        let context = model.stream_context(before);
        let symbol = decoder.symbol(STREAM, context);
        let rank = (symbol < 2).then_some(symbol);
        let stream = match rank {
            Some(rank) => model.points[before.stream * RUNS + before.run].next[usize::from(rank)]
                .map(|next| next as usize),
            None => Some(large(symbol, 2, &mut bits)),
        };
        let stream = stream
            .filter(|&stream| stream < streams)
            .ok_or(Error::Malformed("unknown stream"))?;
        let who = model.enter(backend, before, stream, rank);

        let (by_place, own, own_is_better, context) = model.guesses(who);
        let guess = if own_is_better { own } else { by_place };
        let symbol = decoder.symbol(BLOCK, context);
        let block = guess.wrapping_add(join(symbol, &mut bits)? as u64);
        model.leave(backend, who, block, (by_place, own), symbol);

        let symbol = decoder.symbol(TIME, CONTEXTS_OF[TIME] + usize::from(same));
        model.time = model.time.wrapping_add(join(symbol, &mut bits)? as u64);

        let how = decoder.symbol(HOW, model.how_context(stream));
        model.how[stream] = how;

        into.backend.push(backend as u32);
        into.stream.push(stream as u32);
        into.block.push(block);
        into.time.push(model.time);
        into.how.push(how);
    }
    if decoder.is_whole() && bits.is_whole() && cursor.is_at_end() {
        Ok(())
    } else {
        Err(Error::Malformed(
            "length does not match the number of accesses",
        ))
    }
}

fn table_length(cursor: &mut Cursor<'_>, count: usize) -> Result<usize, Error> {
    usize::try_from(cursor.number()?)
        .ok()
        .filter(|&length| length <= count)
        .ok_or(Error::Malformed(
            "a table has more entries than there are accesses",
        ))
}

#[cfg(test)]
pub(super) mod tests;
