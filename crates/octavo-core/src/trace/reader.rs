use std::io::Read;

use super::{
    Accesses, Error, Fact,
    checksum::crc32c,
    columns,
    frame::{Frame, FrameKind, HEADER, MAGIC, VERSION, page_size},
};

const CHUNK: usize = 1 << 18;
const MOST_SEARCHES: u32 = 256;

/// The contents of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Facts.
    Facts(Vec<Fact>),
    /// Accesses, in the columns that `Reader::next` was given.
    Accesses,
}

/// The same with another representation of accesses.
pub(super) enum Found<T> {
    Facts(Vec<Fact>),
    Accesses(T),
}

/// The accesses of a frame as they are encoded in the file.
pub(super) struct Encoded {
    pub(super) payload: Vec<u8>,
    count: u32,
}

impl Encoded {
    /// Decodes them into columns.
    pub(super) fn decode(&self, into: &mut Accesses) -> Result<(), Error> {
        columns::decode(&self.payload, self.count, into)
    }
}

/// What is missing from a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Accesses in unreadable frames, as far as later frames give their number.
    pub accesses: u64,
    /// Bytes that belong to no complete frame.
    pub bytes: u64,
    /// The end is missing: the number of accesses after it is unknown.
    pub is_cut: bool,
}

/// Reads a trace as a stream, skipping damaged parts.
pub struct Reader<R: Read> {
    from: R,
    buffer: Vec<u8>,
    start: usize,
    page_size: Option<u32>,
    expected: u64,
    frames: u64,
    searches: u32,
    ended: bool,
    missing: Missing,
}

impl<R: Read> Reader<R> {
    /// A reader of this file or pipe, which need not be buffered.
    pub const fn new(from: R) -> Self {
        Self {
            from,
            buffer: Vec::new(),
            start: 0,
            page_size: None,
            expected: 0,
            frames: 0,
            searches: 0,
            ended: false,
            missing: Missing {
                accesses: 0,
                bytes: 0,
                is_cut: false,
            },
        }
    }

    /// The page size in bytes, known from the first frame on.
    pub const fn page_size(&self) -> Option<u32> {
        self.page_size
    }

    /// What has been found missing so far; complete once `next` has returned None.
    pub const fn missing(&self) -> Missing {
        self.missing
    }

    /// The next complete frame's contents, or None at the end.
    ///
    /// # Errors
    /// If the input cannot be read, is not a trace, or is one of a later version.
    pub fn next(&mut self, accesses: &mut Accesses) -> Result<Option<Item>, Error> {
        let found = self.next_as(|payload, count| columns::decode(payload, count, accesses))?;
        Ok(found.map(|found| match found {
            Found::Facts(facts) => Item::Facts(facts),
            Found::Accesses(()) => Item::Accesses,
        }))
    }

    /// The same with accesses that are not decoded.
    ///
    /// # Errors
    /// As `next`.
    pub(super) fn next_encoded(&mut self) -> Result<Option<Found<Encoded>>, Error> {
        self.next_as(|payload, count| {
            Ok(Encoded {
                payload: payload.to_vec(),
                count,
            })
        })
    }

    /// The accesses of `next_encoded` turned out to be invalid.
    pub(super) fn miss(&mut self, encoded: &Encoded) {
        self.frames = self.frames.saturating_sub(1);
        self.missing.bytes += (HEADER + encoded.payload.len()) as u64;
        self.missing.accesses = self.missing.accesses.saturating_add(encoded.count.into());
    }

    /// Whether there was a complete frame so far: otherwise the input is not a trace.
    pub(super) const fn has_frames(&self) -> bool {
        self.frames > 0
    }

    fn next_as<T>(
        &mut self,
        mut decode: impl FnMut(&[u8], u32) -> Result<T, Error>,
    ) -> Result<Option<Found<T>>, Error> {
        while !self.ended {
            let Some(frame) = self.find_frame()? else {
                break;
            };
            let payload_end = HEADER + frame.length as usize;
            if self.fill(payload_end)? < payload_end {
                // Truncated within this frame, or a header by chance: complete frames may still follow.
                self.skip(1);
                continue;
            }
            let payload = &self.buffer[self.start + HEADER..self.start + payload_end];
            if crc32c(payload) != frame.checksum || frame.first < self.expected {
                // Bytes may be lost, so that another frame begins within this one; but the number of such searches is
                // limited, because a file may be constructed to cost time.
                self.searches += 1;
                self.skip(if self.searches > MOST_SEARCHES {
                    payload_end
                } else {
                    1
                });
                continue;
            }
            check(&frame, &mut self.page_size)?;
            let item = match frame.kind {
                FrameKind::Facts => Fact::all(payload).map(|facts| Some(Found::Facts(facts))),
                FrameKind::Accesses => {
                    decode(payload, frame.count).map(|found| Some(Found::Accesses(found)))
                }
                FrameKind::End | FrameKind::Later => Ok(None),
            };
            let Ok(item) = item else {
                self.skip(payload_end);
                continue;
            };
            self.start += payload_end;
            self.frames += 1;
            self.missing.accesses = self
                .missing
                .accesses
                .saturating_add(frame.first - self.expected);
            self.expected = frame.first.saturating_add(match item {
                Some(Found::Accesses(_)) => frame.count.into(),
                _ => 0,
            });
            self.ended = frame.kind == FrameKind::End;
            if item.is_some() {
                return Ok(item);
            }
        }
        if !self.ended {
            self.ended = true;
            self.missing.is_cut = true;
        }
        if self.frames == 0 {
            Err(Error::NoTrace)
        } else {
            Ok(None)
        }
    }

    /// Skips to the next header with a valid checksum. None if there is no more.
    fn find_frame(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            let there = self.fill(HEADER)?;
            let ahead = &self.buffer[self.start..];
            if there < HEADER {
                self.skip(there);
                return Ok(None);
            }
            let header = ahead.first_chunk::<HEADER>().and_then(Frame::read);
            if header.is_some() {
                return Ok(header);
            }
            // Up to the next byte that may begin a frame.
            let next = ahead[1..]
                .iter()
                .position(|&byte| byte == MAGIC[0])
                .map_or(ahead.len(), |place| place + 1);
            self.skip(next);
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.missing.bytes += bytes as u64;
    }

    /// Makes this many bytes available, or as many as there are. Returns the number available.
    fn fill(&mut self, wanted: usize) -> Result<usize, Error> {
        while self.buffer.len() - self.start < wanted {
            if self.start > CHUNK {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let before = self.buffer.len();
            let more = (&mut self.from)
                .take(CHUNK as u64)
                .read_to_end(&mut self.buffer)?;
            if more == 0 {
                self.buffer.truncate(before);
                break;
            }
        }
        Ok(self.buffer.len() - self.start)
    }
}

fn check(frame: &Frame, known: &mut Option<u32>) -> Result<(), Error> {
    if frame.version > VERSION {
        return Err(Error::Version(frame.version));
    }
    let size = page_size(frame.page_size.into())?;
    match *known.get_or_insert(size) {
        other if other != size => Err(Error::TwoPageSizes(other, size)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{
        super::{Access, Event, EventKind, Writer, columns::tests::accesses},
        *,
    };

    fn written(parts: &[Vec<Access>]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), 8192).unwrap();
        writer
            .fact(&Fact::Property("recorder".into(), "a test".into()))
            .unwrap();
        for part in parts {
            part.iter().for_each(|access| writer.push(access).unwrap());
            writer.flush().unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Access>, Vec<Fact>, Missing), Error> {
        let (mut found, mut facts, mut columns) = (Vec::new(), Vec::new(), Accesses::default());
        let mut reader = Reader::new(bytes);
        while let Some(item) = reader.next(&mut columns)? {
            match item {
                Item::Facts(more) => facts.extend(more),
                Item::Accesses => found.extend(columns.iter()),
            }
        }
        Ok((found, facts, reader.missing()))
    }

    fn some(count: u64, from: u64) -> Vec<Access> {
        (from..from + count)
            .map(|number| Access {
                time: number,
                block: number * number % 1009,
                ..Access::default()
            })
            .collect()
    }

    #[test]
    fn more_than_a_block_comes_back() {
        let all = some(MOST as u64 * 2 + 5, 0);
        let bytes = written(std::slice::from_ref(&all));
        let (found, facts, missing) = read(&bytes).unwrap();
        assert_eq!(found, all);
        assert_eq!(facts, [Fact::Property("recorder".into(), "a test".into())]);
        assert_eq!(missing, Missing::default());
    }

    const MOST: usize = super::super::MOST_IN_A_BLOCK;

    #[test]
    fn many_facts_come_back() {
        let events: Vec<_> = (0..20_000)
            .map(|time| {
                Fact::Event(Event {
                    time,
                    kind: EventKind::Transactions,
                    count: 1 << 40,
                })
            })
            .collect();
        let mut writer = Writer::new(Vec::new(), 4096).unwrap();
        events.iter().for_each(|fact| writer.fact(fact).unwrap());
        assert_eq!(read(&writer.finish().unwrap()).unwrap().1, events);
    }

    #[test]
    fn a_damaged_frame_is_passed_over_and_counted() {
        let parts = [some(100, 0), some(50, 100), some(70, 150)];
        let whole = written(&parts);
        let first = written(&parts[..1]).len();
        let mut bytes = whole.clone();
        bytes[first + 20] ^= 1; // after the end frame of the shorter file: within the second frame of accesses
        let (found, _, missing) = read(&bytes).unwrap();
        assert_eq!(found.len(), 170);
        assert_eq!(missing.accesses, 50);
        assert!(missing.bytes > 36 && !missing.is_cut);
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        assert!(matches!(read(b""), Err(Error::NoTrace)));
        assert!(matches!(read(&[0xa7; 1000]), Err(Error::NoTrace)));
        assert!(matches!(
            Writer::new(Vec::new(), 3000).map(|_| ()),
            Err(Error::PageSize(3000))
        ));
    }

    #[test]
    fn a_later_version_is_refused() {
        let payload = [1, 1];
        let frame = Frame {
            version: VERSION + 1,
            ..Frame::of(FrameKind::End, 8192, 0, 0, &payload)
        };
        let bytes = [&frame.bytes()[..], &payload].concat();
        assert!(matches!(read(&bytes), Err(Error::Version(2))));
    }

    proptest! {
        #[test]
        fn a_cut_file_gives_its_whole_frames(parts in vec(accesses(60), 1..5), cut: prop::sample::Index) {
            let bytes = written(&parts);
            let cut = cut.index(bytes.len());
            let all: Vec<_> = parts.concat();
            match read(&bytes[..cut]) {
                Ok((found, _, missing)) => {
                    prop_assert!(missing.is_cut);
                    prop_assert_eq!(&found[..], &all[..found.len()]);
                }
                Err(error) => prop_assert!(matches!(error, Error::NoTrace)),
            }
        }

        #[test]
        fn any_damage_leaves_what_is_whole(
            parts in vec(accesses(60), 1..5), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
        ) {
            let mut bytes = written(&parts);
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if let Ok((found, _, missing)) = read(&bytes) {
                let all: usize = parts.iter().map(Vec::len).sum();
                prop_assert!(missing.is_cut || found.len() as u64 + missing.accesses == all as u64);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..600)) {
            let _ = read(&bytes);
        }

        #[test]
        fn any_payload_with_a_right_checksum_is_read(
            payload in vec(any::<u8>(), 0..300), count: u32, first: u64, kind in 0_u8..4
        ) {
            let kind = [FrameKind::Later, FrameKind::Facts, FrameKind::Accesses, FrameKind::End][usize::from(kind)];
            let bytes = [&Frame::of(kind, 8192, count, first, &payload).bytes()[..], &payload].concat();
            let _ = read(&bytes);
        }
    }
}
