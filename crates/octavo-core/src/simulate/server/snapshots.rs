use super::{DeviceCounts, KernelCounts, RequestCounts};
use crate::simulate::buffers::BufferCounts;

/// All counters of a server at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Microseconds since the trace began.
    pub time: u64,
    /// Accesses of the trace until then.
    pub ordinal: u64,
    /// Those in the server's sample.
    pub taken: u64,
    /// Shared buffers.
    pub buffers: BufferCounts,
    /// The requests to the kernel.
    pub requests: RequestCounts,
    /// The page cache, if there is one.
    pub kernel: Option<KernelCounts>,
    /// The device, if there is a page cache.
    pub device: Option<DeviceCounts>,
    /// Reads of blocks that were never accessed before: a server that had been running might have had them in a buffer.
    pub first_reads: u64,
}

/// Which blocks have been in a buffer. Memory: a bit per block number.
#[derive(Default)]
pub struct Seen {
    bits: Vec<u64>,
    first_reads: u64,
}

impl Seen {
    pub(super) const fn first_reads(&self) -> u64 {
        self.first_reads
    }

    pub(super) fn read(&mut self, block: u32) {
        self.first_reads += u64::from(self.add(block));
    }

    pub(super) fn extended(&mut self, block: u32) {
        self.add(block);
    }

    /// Marks a block. Returns whether it is new.
    fn add(&mut self, block: u32) -> bool {
        let (word, bit) = ((block / 64) as usize, 1_u64 << (block % 64));
        if word >= self.bits.len() {
            self.bits.resize((word + 1).next_power_of_two(), 0);
        }
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_for_the_first_time_once() {
        let mut seen = Seen::default();
        for block in [5, 70, 5, 1_000_000, 70] {
            seen.read(block);
        }
        seen.extended(9);
        seen.read(9);
        assert_eq!(seen.first_reads(), 3);
    }
}
