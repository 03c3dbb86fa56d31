//! The header of every frame: 36 bytes, numbers little-endian.

use super::{Error, checksum::crc32c};

/// The version of the format that this program writes.
pub const VERSION: u8 = 1;

pub(super) const MAGIC: [u8; 4] = [0xa7, b'O', b'c', b't'];
pub(super) const HEADER: usize = 36;
/// The limit of a valid payload: no buffer grows beyond it, whatever a damaged file contains. (65,536 accesses take at
/// most 3.4 MB, each in a stream of its own.)
pub(super) const MOST_BYTES: u32 = 1 << 22;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Facts,
    Accesses,
    End,
    Later,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) version: u8,
    pub(super) kind: FrameKind,
    pub(super) page_size: u32,
    pub(super) length: u32,
    /// Accesses in this frame, and in all previous ones.
    pub(super) count: u32,
    pub(super) first: u64,
    pub(super) checksum: u32,
}

/// The page size as a trace stores it. Returns the error `PageSize` for an invalid one.
pub(super) fn page_size(size: u64) -> Result<u32, Error> {
    match u32::try_from(size) {
        Ok(small) if small.is_power_of_two() && (512..=1 << 20).contains(&small) => Ok(small),
        _ => Err(Error::PageSize(size)),
    }
}

impl Frame {
    pub(super) fn of(
        kind: FrameKind,
        page_size: u32,
        count: u32,
        first: u64,
        payload: &[u8],
    ) -> Self {
        Self {
            version: VERSION,
            kind,
            page_size,
            length: payload.len() as u32,
            count,
            first,
            checksum: crc32c(payload),
        }
    }

    pub(super) fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.version;
        bytes[5] = match self.kind {
            FrameKind::Facts => 1,
            FrameKind::Accesses => 2,
            FrameKind::End => 3,
            FrameKind::Later => 0,
        };
        bytes[8..12].copy_from_slice(&self.page_size.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.first.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32c(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// None if these bytes are not the header of a frame.
    pub(super) fn read(bytes: &[u8; HEADER]) -> Option<Self> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if bytes[..4] != MAGIC || word(32) != crc32c(&bytes[..32]) || word(12) > MOST_BYTES {
            return None;
        }
        Some(Self {
            version: bytes[4],
            kind: match bytes[5] {
                1 => FrameKind::Facts,
                2 => FrameKind::Accesses,
                3 => FrameKind::End,
                _ => FrameKind::Later,
            },
            page_size: word(8),
            length: word(12),
            count: word(16),
            first: u64::from(word(20)) | u64::from(word(24)) << 32,
            checksum: word(28),
        })
    }
}
