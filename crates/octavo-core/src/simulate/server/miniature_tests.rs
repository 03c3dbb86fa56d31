//! Miniatures of servers on samples of a trace compared with whole servers on all of it.

use std::num::NonZeroUsize;

use super::{tests::*, *};
use crate::{
    simulate::{Rings, Sample, run_sampled},
    trace::{Access, Event, Fact, Kind, Reader, Strategy, Writer},
};

const PAGES: u64 = 1 << 15;
const BUFFERS: u64 = 1 << 12;
const MEMORY: u64 = 12_000 * OWN;
/// The error permitted to miniatures beyond that of the replicates: the effect of small caches and rings.
const MODEL: f64 = 0.02;
/// Smaller counts are not meaningful.
const LEAST: f64 = 1000.0;

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014), to a number below a limit.
struct Random(u64);

impl Random {
    fn below(&mut self, many: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(bits ^ (bits >> 31)) * u128::from(many)) >> 64) as u64
    }

    /// About Zipf's law with an exponent near 1: as often below 2 as from 2 to 4, from 4 to 8 …
    fn skewed(&mut self, many: u64) -> u64 {
        let octaves = many.ilog2();
        let octave = self.below(u64::from(octaves));
        (1 << octave) + self.below(1 << octave)
    }
}

#[derive(Clone, Copy, Debug)]
enum Workload {
    Uniform,
    /// Frequently used pages are anywhere.
    Skewed,
    /// Frequently used pages are adjacent.
    Clustered,
    /// Scans of all pages, beside uniform accesses.
    Scans,
    /// A table grows, and its last pages are read.
    Growing,
}

fn trace(workload: Workload, many: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), OWN).unwrap();
    let mut random = Random(many);
    let mut length = PAGES / 2;
    let (mut next, mut time) = (0, 0);
    for turn in 0..many {
        let backend = random.below(8) as u32;
        let mut one = |block, kind, strategy| {
            let backend = if strategy == Strategy::Normal {
                backend
            } else {
                9
            };
            time += 1000;
            let access = access(backend, 1, block, kind, strategy);
            writer.push(&Access { time, ..access }).unwrap();
        };
        let block = match workload {
            Workload::Uniform => random.below(PAGES),
            Workload::Skewed => random.skewed(PAGES).wrapping_mul(40_503) % PAGES,
            Workload::Clustered => random.skewed(PAGES),
            Workload::Scans if turn % 4 > 0 => {
                next = (next + 1) % PAGES;
                one(next, Kind::Read, Strategy::BulkRead);
                continue;
            }
            Workload::Scans => random.below(PAGES / 16),
            Workload::Growing if turn % 8 == 0 => {
                one(length, Kind::Extend, Strategy::Normal);
                length += 1;
                continue;
            }
            Workload::Growing => length - 1 - random.skewed(length - 1),
        };
        one(block, Kind::Read, Strategy::Normal);
        if random.below(4) == 0 {
            one(block, Kind::Change, Strategy::Normal);
        }
        if turn % (many / 4) == many / 8 {
            writer.flush().unwrap();
            writer
                .fact(&Fact::Event(Event {
                    time,
                    kind: EventKind::CheckpointStart,
                    count: 1,
                }))
                .unwrap();
        }
    }
    writer.finish().unwrap()
}

fn miniature(level: u32, readahead: u64, scale: u64) -> Server {
    let rings = Rings {
        bulk_read: (256 * KB / scale).max(OWN << level),
        ..Rings::default()
    };
    let size = OWN << level;
    let manager = BufferManager::new(BUFFERS * OWN / scale, size, rings, None);
    let settings = KernelSettings {
        scale,
        ..kernel(MEMORY, 4 * KB, readahead)
    };
    let writer = WriterSettings {
        delay: 200_000,
        rounds: 600.0,
        most: 100,
        multiplier: 2.0,
        scale,
    };
    let blocks = Blocks::Merged(level);
    Server::new(OWN, blocks, manager, 128 * KB, Some(Kernel::new(settings)))
        .writing(writer, Checkpoints::Recorded)
        .miniature(scale)
}

const NAMES: [&str; 8] = [
    "reads",
    "requests",
    "dirty evictions",
    "checkpoint writes",
    "images",
    "device reads",
    "device bytes",
    "device writes",
];

/// The counts of each replicate, scaled to the whole.
fn counted(bytes: &[u8], level: u32, readahead: u64, sample: Sample) -> Vec<[f64; 8]> {
    let mut servers: Vec<_> = (0..sample.replicates())
        .map(|_| miniature(level, readahead, sample.scale()))
        .collect();
    run_sampled(
        &mut Reader::new(bytes),
        sample,
        &mut servers,
        NonZeroUsize::MIN,
        &mut |_| true,
    )
    .unwrap();
    let scaled = |server: &mut Server| {
        server.finish();
        let (counts, device) = (server.buffers().counts(), server.kernel().unwrap().device());
        [
            counts.reads,
            server.requests().reads,
            counts.dirty_evictions,
            counts.checkpoint_writes,
            counts.full_page_images,
            device.reads,
            device.read_bytes,
            device.writes,
        ]
        .map(|count| (count * sample.scale()) as f64)
    };
    servers.iter_mut().map(scaled).collect()
}

#[test]
fn miniatures_count_as_whole_servers_do() {
    let (mut checked, mut missed) = (0, Vec::new());
    for workload in [
        Workload::Uniform,
        Workload::Skewed,
        Workload::Clustered,
        Workload::Scans,
        Workload::Growing,
    ] {
        let bytes = trace(workload, 80_000);
        for (level, readahead) in [(0, 0), (2, 128 * KB)] {
            let whole = counted(&bytes, level, readahead, Sample::default())[0];
            let parts = counted(&bytes, level, readahead, Sample::new(4, 8).unwrap());
            for (at, name) in NAMES.iter().enumerate() {
                if whole[at] < LEAST {
                    continue;
                }
                let mean = parts.iter().map(|part| part[at]).sum::<f64>() / 4.0;
                let squares: f64 = parts.iter().map(|part| (part[at] - mean).powi(2)).sum();
                // Student's t with three degrees of freedom, 95 %.
                let half = 3.182 * (squares / 3.0 / 4.0).sqrt();
                let off = (mean - whole[at]).abs() / half.hypot(MODEL * whole[at]);
                assert!(
                    off < 3.0,
                    "{workload:?} {level} {name}: {mean} is not {}",
                    whole[at]
                );
                checked += 1;
                if off > 1.0 {
                    missed.push((workload, level, name));
                }
            }
        }
    }
    assert!(checked > 50, "{checked}");
    assert!(missed.len() * 10 <= checked, "{missed:?}");
}
