//! Unpacking of external data, in bounded memory.

use std::io::{self, Read};

/// The most memory that a decoder may use for its window, in bytes.
const MOST_WINDOW: u64 = 128 << 20;

/// A decoder of xz.
pub(super) fn xz<R: Read>(source: R) -> impl Read {
    lzma_rust2::XzReader::new_mem_limit(
        source,
        true,
        u32::try_from(MOST_WINDOW >> 10).unwrap_or(u32::MAX),
    )
}

/// A decoder of gzip, also of several members.
pub(super) fn gzip<R: Read>(source: R) -> impl Read {
    flate2::read::MultiGzDecoder::new(source)
}

/// A decoder of zstd, of a single frame.
///
/// # Errors
///
/// If it is not zstd, or needs more memory than the limit.
pub(super) fn zstd<R: Read>(mut source: R) -> io::Result<impl Read> {
    let damaged = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, error.to_string())
    };
    // Magic, descriptor, and up to 13 more bytes (RFC 8878, 3.1.1.1): the decoder itself would accept any window.
    let mut start = Vec::with_capacity(18);
    source.by_ref().take(18).read_to_end(&mut start)?;
    if window(&start).is_none_or(|bytes| bytes > MOST_WINDOW) {
        return Err(damaged(
            &"not zstd, or more than 128 MB needed to unpack it",
        ));
    }
    ruzstd::decoding::StreamingDecoder::new(io::Cursor::new(start).chain(source))
        .map_err(|error| damaged(&error))
}

/// The window that a frame needs, in bytes.
fn window(start: &[u8]) -> Option<u64> {
    let rest = start.strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd])?;
    let (&descriptor, rest) = rest.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    if !is_single {
        let &window = rest.first()?;
        let base = 1_u64 << (10 + u32::from(window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The content is the window: its size follows the dictionary's ID.
    let name = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let bytes = rest.get(name..name + size)?;
    let number = bytes
        .iter()
        .rev()
        .fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
    Some(if size == 2 { number + 256 } else { number })
}
