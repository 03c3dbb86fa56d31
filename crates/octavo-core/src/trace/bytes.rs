//! Numbers and texts as bytes. Reading never passes the end.

use super::Error;

pub(super) const SHORT: Error = Error::Malformed("unexpected end");

/// The longest text, in bytes.
const MOST_TEXT: usize = 60_000;

/// LEB128: seven bits per byte, the lowest first.
pub(super) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes a text, or the beginning of a very long one.
pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let text = &text[..(0..=text.len().min(MOST_TEXT))
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0)];
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// The bytes that have not been read.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        let (&first, rest) = self.0.split_first().ok_or(SHORT)?;
        self.0 = rest;
        Ok(first)
    }

    pub(super) fn number(&mut self) -> Result<u64, Error> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(number);
            }
        }
        Err(Error::Malformed("a number exceeds 64 bits"))
    }

    pub(super) fn small(&mut self) -> Result<u32, Error> {
        u32::try_from(self.number()?).map_err(|_| Error::Malformed("a number exceeds 32 bits"))
    }

    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let length = usize::try_from(length).map_err(|_| SHORT)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        let length = self.number()?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(number: u64) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut cursor = Cursor(&bytes);
            prop_assert_eq!(cursor.number().unwrap(), number);
            prop_assert!(cursor.is_at_end());
        }
    }
}
