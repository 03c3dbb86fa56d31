use super::self_similar::SelfSimilar;
use crate::{
    simulate::{
        Batch,
        feed::{is_change, merged},
        pages::Numbers,
    },
    trace::{Kind, Strategy},
};

/// Blocks of a server's size from pages of the trace's size.
pub enum Blocks {
    /// 2^k neighbouring pages are one block.
    Merged(u32),
    /// Each page is this many blocks; an access always needs the first of them.
    Concentrated(u8),
    /// Each page is this many blocks; accesses need them in turn. A change is of the block that the latest access needed.
    Spread {
        /// At most 32.
        parts: u8,
        /// By page: the next block.
        turns: Vec<u8>,
    },
    /// Each page is this many blocks; an access stays with the previous access's block as often as accesses of two
    /// neighbouring pages stay with one of them.
    SelfSimilar(SelfSimilar),
}

/// An accessed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Without gaps, as far as pages have no gaps.
    pub(super) number: u32,
    /// Its offset in its relation's fork, in bytes.
    pub(super) offset: u64,
}

/// The location of the trace's pages.
#[derive(Default)]
pub(super) struct Homes(Vec<(u32, u64)>);

impl Homes {
    pub(super) fn learn(&mut self, batch: &Batch) {
        self.0.extend_from_slice(&batch.new_chunks);
    }

    /// The page's stream, and its number there.
    fn of(&self, page: u32) -> (u32, u64) {
        let (stream, chunk) = self.0[(page >> Numbers::CHUNK_BITS) as usize];
        let place = (chunk << Numbers::CHUNK_BITS) | u64::from(page & Numbers::IN_CHUNK);
        (stream, place)
    }
}

impl Blocks {
    /// The number of blocks of this size in `pages`; `own` is the trace's page size.
    pub(super) const fn of_pages(&self, pages: u64) -> u64 {
        match self {
            Self::Merged(level) => pages >> *level,
            Self::Concentrated(parts) | Self::Spread { parts, .. } => {
                pages.saturating_mul(*parts as u64)
            }
            Self::SelfSimilar(similar) => pages.saturating_mul(similar.parts() as u64),
        }
    }

    /// A block's size in bytes.
    pub(super) const fn size(&self, own: u64) -> u64 {
        match self {
            Self::Merged(level) => own << *level,
            Self::Concentrated(parts) | Self::Spread { parts, .. } => own / *parts as u64,
            Self::SelfSimilar(similar) => own / similar.parts() as u64,
        }
    }

    /// The number of a page's first block.
    pub(super) const fn first(&self, page: u32) -> u32 {
        match self {
            Self::Merged(level) => page >> *level,
            Self::Concentrated(parts) | Self::Spread { parts, .. } => {
                page.wrapping_mul(*parts as u32)
            }
            Self::SelfSimilar(similar) => page.wrapping_mul(similar.parts() as u32),
        }
    }

    /// How the blocks of a page are accessed.
    pub(super) fn how(&self, page: u32, how: u8) -> u8 {
        match self {
            Self::Merged(level) => merged(how, page, *level),
            _ => how,
        }
    }

    /// The blocks that an access of a page needs: one, or all blocks of the page if a scan reads it or it is new. A
    /// visitor is a backend and the number of its visit.
    pub(super) fn each(
        &mut self,
        page: u32,
        how: u8,
        (stream, visitor): (u32, (u32, u32)),
        homes: &Homes,
        own: u64,
        mut then: impl FnMut(Block),
    ) {
        let size = self.size(own);
        let (_, place) = homes.of(page);
        let offset = place.saturating_mul(own);
        let whole = Strategy::of(how) != Strategy::Normal || Kind::of(how) == Kind::Extend;
        let part = |number: u32, part: u8| Block {
            number,
            offset: offset.saturating_add(u64::from(part) * size),
        };
        match self {
            Self::Merged(level) => then(Block {
                number: page >> *level,
                offset: offset / size * size,
            }),
            Self::Concentrated(parts) | Self::Spread { parts, .. } if whole => {
                for one in 0..*parts {
                    then(part(page * u32::from(*parts) + u32::from(one), one));
                }
            }
            Self::Concentrated(parts) => then(part(page * u32::from(*parts), 0)),
            Self::Spread { parts, turns } => {
                let number = page as usize;
                if number >= turns.len() {
                    turns.resize((number + 1).next_power_of_two(), 0);
                }
                let mut turn = turns[number];
                if is_change(how) {
                    turn = (turn + *parts - 1) % *parts;
                } else {
                    turns[number] = (turn + 1) % *parts;
                }
                then(part(page * u32::from(*parts) + u32::from(turn), turn));
            }
            Self::SelfSimilar(similar) => {
                let parts = u32::from(similar.parts());
                let found = similar.part(page, how, stream, visitor);
                for one in found {
                    then(part(page * parts + u32::from(one), one));
                }
            }
        }
    }

    /// A block's location: its stream and its offset there, in bytes.
    pub(super) fn home(&self, number: u32, homes: &Homes, own: u64) -> (u32, u64) {
        match self {
            Self::Merged(level) => {
                let (stream, place) = homes.of(number << *level);
                (stream, place.saturating_mul(own))
            }
            Self::Concentrated(parts) | Self::Spread { parts, .. } => {
                Self::part_home(number, u32::from(*parts), homes, own)
            }
            Self::SelfSimilar(similar) => {
                Self::part_home(number, u32::from(similar.parts()), homes, own)
            }
        }
    }

    /// The location of the number-th part of the pages.
    fn part_home(number: u32, parts: u32, homes: &Homes, own: u64) -> (u32, u64) {
        let (stream, place) = homes.of(number / parts);
        let part = u64::from(number % parts);
        let offset = place
            .saturating_mul(own)
            .saturating_add(part * (own / u64::from(parts)));
        (stream, offset)
    }
}
