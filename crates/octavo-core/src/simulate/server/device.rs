/// The requests to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Read requests.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
}

/// A block device: neighbouring pages that are needed together are one request, up to a size (max_sectors_kb).
pub(super) struct Device {
    largest: u64,
    counts: DeviceCounts,
}

impl Device {
    /// With requests of at most this many bytes.
    #[must_use]
    pub(super) fn new(largest: u64) -> Self {
        Self {
            largest: largest.max(512),
            counts: DeviceCounts::default(),
        }
    }

    /// The counters so far.
    #[must_use]
    pub(super) const fn counts(&self) -> DeviceCounts {
        self.counts
    }

    /// Reads this many consecutive bytes.
    pub(super) const fn read(&mut self, bytes: u64) {
        self.counts.reads += bytes.div_ceil(self.largest);
        self.counts.read_bytes += bytes;
    }

    /// Writes this many consecutive bytes.
    pub(super) const fn write(&mut self, bytes: u64) {
        self.counts.writes += bytes.div_ceil(self.largest);
        self.counts.written_bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_requests_are_cut() {
        let mut device = Device::new(1 << 20);
        device.read(8192);
        device.read(0);
        device.read((1 << 20) + 1);
        device.write(1 << 20);
        assert_eq!(
            device.counts(),
            DeviceCounts {
                reads: 3,
                read_bytes: 8192 + (1 << 20) + 1,
                writes: 1,
                written_bytes: 1 << 20
            }
        );
    }
}
