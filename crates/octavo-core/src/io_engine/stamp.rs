//! The contents that octavo io writes: every sector contains its position, so that a read can be checked.
//!
//! A sector of 512 bytes holds a mark, its own number in the file, the number of the write that made it, and bytes that
//! are derived from its position and do not compress.

use std::sync::LazyLock;

use super::{Error, open_file::OpenFile, permutation::split_mix};

/// Bytes of the smallest unit that is checked.
pub const SECTOR: usize = 512;
const MARK: [u8; 8] = *b"OctavoIO";
const HEADER: usize = 24;

/// The bytes between the headers repeat with this period.
const PERIOD: usize = 1 << 20;
static FILLER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0;
    (0..PERIOD / 8)
        .flat_map(|_| split_mix(&mut state).to_le_bytes())
        .collect()
});

/// Fills a buffer with the contents for `offset`; both are multiples of a sector.
pub(super) fn write(buffer: &mut [u8], offset: u64, generation: u64) {
    for (sector, number) in buffer
        .chunks_exact_mut(SECTOR)
        .zip(offset / SECTOR as u64..)
    {
        sector[HEADER..].copy_from_slice(filler(number));
        sector[..8].copy_from_slice(&MARK);
        sector[8..16].copy_from_slice(&number.to_le_bytes());
        sector[16..HEADER].copy_from_slice(&generation.to_le_bytes());
    }
}

/// Checks that a buffer holds the contents for `offset`, from whichever write.
///
/// # Errors
///
/// [`Error::Corrupt`] with the first sector that differs.
pub(super) fn check(buffer: &[u8], file: &OpenFile, offset: u64) -> Result<(), Error> {
    for (sector, number) in buffer.chunks_exact(SECTOR).zip(offset / SECTOR as u64..) {
        if sector[..8] != MARK
            || sector[8..16] != number.to_le_bytes()
            || sector[HEADER..] != *filler(number)
        {
            return Err(corrupt(sector, file, number));
        }
    }
    Ok(())
}

#[inline]
fn filler(sector: u64) -> &'static [u8] {
    let start = (sector as usize % (PERIOD / SECTOR)) * SECTOR;
    &FILLER[start + HEADER..start + SECTOR]
}

#[cold]
fn corrupt(sector: &[u8], file: &OpenFile, number: u64) -> Error {
    let found = if sector[..8] != MARK {
        "no header of octavo io".to_owned()
    } else if sector[8..16] != number.to_le_bytes() {
        let mut other = [0; 8];
        other.copy_from_slice(&sector[8..16]);
        format!(
            "the data of byte {}",
            u128::from(u64::from_le_bytes(other)) * SECTOR as u128
        )
    } else {
        "its header, followed by other data".to_owned()
    };
    Error::Corrupt {
        path: file.path.clone(),
        offset: number * SECTOR as u64,
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io_engine::open_file::LOOK;
    use proptest::prelude::*;
    use std::path::Path;

    fn any_file() -> OpenFile {
        OpenFile::open(Path::new("Cargo.toml"), LOOK).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_right_there_and_nowhere_else(
            sectors in 1_usize..20, at in 0_u64..1 << 40, elsewhere in 1_u64..1 << 40, generation: u64
        ) {
            let file = any_file();
            let mut buffer = vec![0; sectors * SECTOR];
            write(&mut buffer, at * SECTOR as u64, generation);
            prop_assert!(check(&buffer, &file, at * SECTOR as u64).is_ok());
            prop_assert!(check(&buffer, &file, (at + elsewhere) * SECTOR as u64).is_err());
        }

        #[test]
        fn any_changed_byte_is_found(sectors in 1_usize..9, at in 0_usize..8 * SECTOR, change in 1_u8..) {
            let at = at % (sectors * SECTOR);
            prop_assume!(!(16..HEADER).contains(&(at % SECTOR)), "the number of the write may be any");
            let mut buffer = vec![0; sectors * SECTOR];
            write(&mut buffer, 0, 1);
            buffer[at] ^= change;
            let error = check(&buffer, &any_file(), 0).unwrap_err().to_string();
            let expected = format!("at byte {} ", at / SECTOR * SECTOR);
            prop_assert!(error.contains(&expected), "{}", error);
        }
    }
}
