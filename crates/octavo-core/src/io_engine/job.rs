//! The parameters of a measurement.

use std::{path::PathBuf, time::Duration};

use super::{Error, Joining, Pattern, stamp::SECTOR};

/// How a request reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One pread(2) or pwrite(2) after another.
    Plain,
    /// The whole request into the page cache by one pread(2), then each of its blocks by a separate pread(2).
    CacheFirst,
    /// pread(2), with posix_fadvise(2) `WILLNEED` for the request this many further on.
    Advised {
        /// The distance in requests.
        distance: u64,
    },
    /// One preadv(2) into one buffer per block, as PostgreSQL 17 and later read.
    Vectored,
    /// io_uring with at most this many requests in flight.
    Ring {
        /// Requests in flight.
        depth: u32,
    },
}

/// The state of the page cache when the measurement begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// None of the files is cached, and no block is visited twice before they are dropped from the cache again.
    Cold,
    /// All of the files are cached, as far as memory allows.
    Warm,
    /// Unchanged.
    Found,
}

/// The readahead that the kernel applies to the files (posix_fadvise(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readahead {
    /// The device's setting (`POSIX_FADV_NORMAL`).
    Normal,
    /// None (`POSIX_FADV_RANDOM`).
    Random,
    /// Twice the device's setting (`POSIX_FADV_SEQUENTIAL`).
    Sequential,
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Job {
    /// The files, in the order of their blocks.
    pub paths: Vec<PathBuf>,
    /// Bytes of a block: a multiple of 512.
    pub block: u64,
    /// Which blocks, in which order.
    pub pattern: Pattern,
    /// How blocks are joined into requests.
    pub joining: Joining,
    /// How requests reach the kernel.
    pub method: Method,
    /// Writes what `verify` checks, instead of reading.
    pub write: bool,
    /// Bypasses the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Each write is on the device before it ends (`O_DSYNC`).
    pub durable: bool,
    /// Permits writing to a block device, whose contents are lost.
    pub lose_device: bool,
    /// Checks every block that is read.
    pub verify: bool,
    /// At least 1; each has its own share of the blocks, and with io_uring its own ring.
    pub threads: u64,
    /// The state of the page cache at the beginning.
    pub cache: Cache,
    /// The advice to the kernel.
    pub readahead: Readahead,
    /// The longest time to measure.
    pub time: Option<Duration>,
    /// The most blocks to visit.
    pub blocks: Option<u64>,
    /// Ends after every block was visited once.
    pub once: bool,
    /// The seed of random orders.
    pub seed: u64,
}

/// The limit for the buffers of one thread, in bytes.
const MOST_BUFFER: u64 = 1 << 30;
const MOST_THREADS: u64 = 1024;
/// The largest `entries` of io_uring_setup(2).
const MOST_DEPTH: u32 = 32_768;
/// The limit of requests that are advised ahead: more than any device or readahead window holds.
const MOST_DISTANCE: u64 = 1 << 20;
/// `IOV_MAX` of Linux (limits.h): the limit of buffers of one preadv(2).
pub(super) const MOST_BUFFERS: u64 = 1024;

impl Job {
    /// The most blocks that a request can have: for a run no more than the longest run has.
    #[must_use]
    pub fn most_blocks(&self) -> u64 {
        match self.joining {
            Joining::Run { most } => most.min(self.pattern.longest_run()),
            other => other.most(),
        }
    }

    /// Checks whether the job is possible, whatever the files are.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] with the reason.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::Parameter(reason));
        if self.block == 0 || self.block % SECTOR as u64 != 0 {
            return refuse(format!(
                "a block of {} bytes is not a multiple of {SECTOR}",
                self.block
            ));
        }
        if self.threads == 0 || self.threads > MOST_THREADS {
            return refuse(format!(
                "threads must be from 1 to {MOST_THREADS}, not {}",
                self.threads
            ));
        }
        let most = self.most_blocks();
        if most == 0 {
            return refuse(format!(
                "a request is smaller than a block of {} bytes; allow larger requests",
                self.block
            ));
        }
        let in_flight = match self.method {
            Method::Ring { depth } if depth == 0 || depth > MOST_DEPTH => {
                return refuse(format!("depth must be from 1 to {MOST_DEPTH}, not {depth}"));
            }
            Method::Ring { depth } => u64::from(depth),
            Method::Advised { distance } if distance > MOST_DISTANCE => {
                return refuse(format!(
                    "distance must be from 0 to {MOST_DISTANCE}, not {distance}"
                ));
            }
            Method::Vectored if most > MOST_BUFFERS => {
                return refuse(format!(
                    "preadv(2) takes at most {MOST_BUFFERS} blocks per request, but requests may have {most}; allow fewer"
                ));
            }
            _ => 1,
        };
        if most.saturating_mul(self.block).saturating_mul(in_flight) > MOST_BUFFER {
            return refuse(format!(
                "{in_flight} requests of up to {most} blocks of {} bytes need more than 1 GB of buffers a thread; \
                 use fewer or smaller requests",
                self.block
            ));
        }
        if self.write {
            match (self.method, self.joining) {
                (Method::Plain | Method::Ring { .. }, Joining::Coalesced { hole: 1.., .. }) => {
                    return refuse("writes cannot fill holes; set the hole to 0".into());
                }
                (Method::Plain | Method::Ring { .. }, _) => {}
                _ => return refuse("this policy only reads; choose another one to write".into()),
            }
        }
        if self.direct && matches!(self.method, Method::CacheFirst | Method::Advised { .. }) {
            return refuse("this policy needs the page cache, which O_DIRECT bypasses".into());
        }
        if self.time.is_none() && self.blocks.is_none() && !self.once {
            return refuse("the measurement has no end; give a time or a number of blocks".into());
        }
        Ok(())
    }
}
