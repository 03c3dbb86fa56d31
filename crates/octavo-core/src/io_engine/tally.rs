//! The counters of one thread, which shares nothing with others.

use hdrhistogram::Histogram;

use super::policy::Request;

/// The longest latency that is distinguished, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// Counters and latencies of requests.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests made: reads or writes, not advice.
    pub requests: u64,
    /// Blocks that were wanted.
    pub blocks: u64,
    /// Bytes requested, including holes and what was read a second time from the cache.
    pub bytes: u64,
    /// Nanoseconds per request, to three digits.
    pub latency: Histogram<u64>,
    /// Nanoseconds of CPU.
    pub cpu: u64,
}

impl Tally {
    /// Empty counters.
    #[must_use]
    pub fn new() -> Self {
        let latency =
            Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds that a histogram can have");
        Self {
            requests: 0,
            blocks: 0,
            bytes: 0,
            latency,
            cpu: 0,
        }
    }

    /// Counts one request of this many bytes and nanoseconds.
    #[inline]
    pub fn count(&mut self, nanoseconds: u64, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
        self.latency.saturating_record(nanoseconds);
    }

    /// Counts the wanted blocks of a request.
    #[inline]
    pub fn deliver(&mut self, request: Request) {
        self.blocks += request.wanted;
    }

    /// Adds another thread's counters.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.cpu += other.cpu;
        self.latency.add(&other.latency).expect("the same bounds");
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}
