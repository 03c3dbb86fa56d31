//! Memory that `O_DIRECT` can read into.

use std::ops::{Deref, DerefMut};

/// The largest known logical sector and memory page; a multiple of all others.
const ALIGNMENT: usize = 64 * 1024;

/// Bytes at an aligned address, touched before the timing begins.
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// A buffer of this many bytes.
    #[must_use]
    pub(super) fn new(length: usize) -> Self {
        // Filled with a value other than zero, so that the kernel allocates the pages now.
        let memory = vec![0xA5_u8; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self {
            memory,
            start,
            length,
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_as_long_as_asked() {
        for length in [1, 512, 8192, 1 << 20] {
            let buffer = Buffer::new(length);
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        }
    }
}
