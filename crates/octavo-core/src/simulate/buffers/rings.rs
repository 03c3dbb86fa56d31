//! The rings of buffers for bulk operations (GetAccessStrategy in PostgreSQL's freelist.c).

use std::collections::HashMap;

use super::NONE;
use crate::trace::Strategy;

/// Sizes of rings in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// For scans of tables larger than a quarter of shared_buffers.
    pub bulk_read: u64,
    /// For COPY and similar commands.
    pub bulk_write: u64,
    /// For VACUUM.
    pub vacuum: u64,
}

impl Default for Rings {
    /// The sizes of PostgreSQL 17.
    fn default() -> Self {
        Self {
            bulk_read: 256 << 10,
            bulk_write: 16 << 20,
            vacuum: 2 << 20,
        }
    }
}

/// The ring of one backend and strategy.
struct Ring {
    /// Filled so far.
    buffers: Vec<u32>,
    current: usize,
    scan: u32,
}

/// A position in a ring, and the buffer there if it has one.
pub(super) struct Turn {
    pub place: usize,
    pub buffer: Option<u32>,
}

/// A ring per backend and strategy, created on first use.
pub(super) struct RingsInUse {
    rings: HashMap<(u32, u8), Ring>,
    /// The ring's size, by strategy.
    buffers: [usize; 4],
    /// Scans of larger relations use a ring: a quarter of shared_buffers, in pages.
    scan_threshold: f64,
}

impl RingsInUse {
    /// For this number of buffers, of which the fraction `rate` is simulated.
    pub(super) fn new(sizes: Rings, page_size: u64, buffers: u64, rate: f64) -> Self {
        let ring = |bytes: u64| {
            let whole = (bytes / page_size.max(1)).min(buffers / 8);
            if whole == 0 {
                0
            } else {
                ((whole as f64 * rate).round() as usize).max(1)
            }
        };
        Self {
            rings: HashMap::new(),
            buffers: [
                0,
                ring(sizes.bulk_read),
                ring(sizes.bulk_write),
                ring(sizes.vacuum),
            ],
            scan_threshold: (buffers / 4) as f64,
        }
    }

    /// Whether an access to a relation of this many pages uses a ring.
    pub(super) fn serve(&self, strategy: Strategy, relation: u64) -> bool {
        self.buffers[usize::from(strategy.number())] > 0
            && (strategy != Strategy::BulkRead || relation as f64 > self.scan_threshold)
    }

    /// The next position of the ring. Each scan has a ring of its own.
    pub(super) fn turn(&mut self, backend: u32, scan: u32, strategy: Strategy) -> Turn {
        let size = self.buffers[usize::from(strategy.number())];
        let ring = self
            .rings
            .entry((backend, strategy.number()))
            .or_insert_with(|| Ring {
                buffers: Vec::new(),
                current: 0,
                scan,
            });
        if strategy == Strategy::BulkRead && std::mem::replace(&mut ring.scan, scan) != scan {
            ring.buffers.clear();
        }
        ring.current = (ring.current + 1) % size;
        let buffer = ring.buffers.get(ring.current).copied();
        Turn {
            place: ring.current,
            buffer: buffer.filter(|&buffer| buffer != NONE),
        }
    }

    /// Puts a buffer into the ring.
    pub(super) fn put(&mut self, place: usize, backend: u32, strategy: Strategy, buffer: u32) {
        if let Some(ring) = self.rings.get_mut(&(backend, strategy.number())) {
            if place >= ring.buffers.len() {
                ring.buffers.resize(place + 1, NONE);
            }
            ring.buffers[place] = buffer;
        }
    }
}
