use std::num::NonZeroUsize;

use super::*;
use crate::{
    simulate::{Rings, run},
    trace::{Access, Event, Fact, Kind, Reader, Strategy, Stream, Writer},
};

mod reference;

pub(super) const KB: u64 = 1 << 10;
pub(super) const OWN: u64 = 8 * KB;

pub(super) fn access(
    backend: u32,
    relation: u32,
    block: u64,
    kind: Kind,
    strategy: Strategy,
) -> Access {
    Access {
        time: 0,
        backend,
        stream: Stream {
            relation,
            ..Stream::default()
        },
        block,
        kind,
        strategy,
    }
}

fn read(block: u64) -> Access {
    access(1, 1, block, Kind::Read, Strategy::Normal)
}

fn scanned(block: u64) -> Access {
    access(1, 1, block, Kind::Read, Strategy::BulkRead)
}

pub(super) fn kernel(memory: u64, page_size: u64, readahead: u64) -> KernelSettings {
    KernelSettings {
        memory,
        page_size,
        readahead,
        largest_request: 1280 * KB,
        dirty_background: memory / 10,
        dirty_expire: 30_000_000,
        scale: 1,
    }
}

fn server(blocks: Blocks, buffers: u64, combine: u64, kernel: Option<KernelSettings>) -> Server {
    let size = blocks.size(OWN);
    let manager = BufferManager::new(buffers * size, size, Rings::default(), None);
    Server::new(OWN, blocks, manager, combine, kernel.map(Kernel::new))
}

/// The server after these accesses; `None` among them is a checkpoint.
fn after(mut server: Server, accesses: &[Option<Access>]) -> Server {
    let mut writer = Writer::new(Vec::new(), OWN).unwrap();
    for one in accesses {
        match one {
            Some(access) => writer.push(access).unwrap(),
            None => {
                writer.flush().unwrap();
                writer
                    .fact(&Fact::Event(Event {
                        time: 0,
                        kind: EventKind::CheckpointStart,
                        count: 1,
                    }))
                    .unwrap();
            }
        }
    }
    let bytes = writer.finish().unwrap();
    let servers = std::slice::from_mut(&mut server);
    run(
        &mut Reader::new(&bytes[..]),
        servers,
        NonZeroUsize::MIN,
        &mut |_| true,
    )
    .unwrap();
    server.finish();
    server
}

fn reads(server: &Server) -> (u64, u64) {
    let device = server.kernel().unwrap().device();
    (device.reads, device.read_bytes)
}

#[test]
fn a_random_read_of_8_kb_is_64_kb_where_kernel_pages_are() {
    let accesses: Vec<_> = (1..200)
        .map(|turn| Some(read(turn * 7919 % 100_000)))
        .collect();
    for (page, bytes) in [(4 * KB, 8 * KB), (16 * KB, 16 * KB), (64 * KB, 64 * KB)] {
        let kernel = kernel(1 << 30, page, 128 * KB);
        let found = after(server(Blocks::Merged(0), 1000, 0, Some(kernel)), &accesses);
        assert_eq!(reads(&found), (199, 199 * bytes));
    }
}

#[test]
fn threads_without_work_are_not_started() {
    let mut writer = Writer::new(Vec::new(), OWN).unwrap();
    writer.push(&read(7)).unwrap();
    let bytes = writer.finish().unwrap();
    let mut servers = [server(Blocks::Merged(0), 16, 0, None)];
    let totals = run(
        &mut Reader::new(&bytes[..]),
        &mut servers,
        NonZeroUsize::MAX,
        &mut |_| true,
    );
    assert_eq!(totals.unwrap().accesses, 1);
}

#[test]
fn a_sequential_scan_is_read_in_readaheads_windows() {
    let accesses: Vec<_> = (0..1024).map(|block| Some(scanned(block))).collect();
    let kernel = kernel(1 << 30, 4 * KB, 128 * KB);
    let found = after(server(Blocks::Merged(0), 16, 0, Some(kernel)), &accesses);
    // 8 MB: windows of 16, 32, 64 kB, and then 128 kB each: 63 of them and the rest.
    assert_eq!(reads(&found), (3 + 64, 8 << 20));
    assert_eq!(found.requests().reads, 1024);
    assert_eq!(found.kernel().unwrap().counts().pages_missing, 1);
}

#[test]
fn scans_read_blocks_at_once_since_17() {
    let accesses: Vec<_> = (0..64).map(|block| Some(scanned(block))).collect();
    let found = after(server(Blocks::Merged(0), 1024, 128 * KB, None), &accesses);
    assert_eq!(
        (found.requests().reads, found.requests().read_bytes),
        (4, 512 * KB)
    );
    let found = after(server(Blocks::Merged(2), 1024, 128 * KB, None), &accesses);
    assert_eq!(
        (found.requests().reads, found.requests().read_bytes),
        (4, 512 * KB)
    );
    let found = after(server(Blocks::Merged(0), 1024, 0, None), &accesses);
    assert_eq!(found.requests().reads, 64);
    // A block that is in a buffer ends the combined read; one that is not adjacent begins another.
    let mut broken = vec![Some(read(20))];
    broken.extend(&accesses);
    let found = after(server(Blocks::Merged(0), 1024, 128 * KB, None), &broken);
    assert_eq!(found.requests().reads, 1 + 2 + 3);
    let random: Vec<_> = (0..64).map(|block| Some(read(block))).collect();
    let found = after(server(Blocks::Merged(0), 1024, 128 * KB, None), &random);
    assert_eq!(found.requests().reads, 64);
}

#[test]
fn a_scan_has_one_ring_in_whatever_order_its_blocks_were_first_accessed() {
    // Blocks 64 apart in descending order: their numbers fall while those of the scan's blocks rise.
    let mut accesses: Vec<_> = (0..64).rev().map(|chunk| Some(read(64 * chunk))).collect();
    accesses.extend((0..64 * 64).map(|block| Some(scanned(block))));
    let found = after(server(Blocks::Merged(0), 1024, 0, None), &accesses);
    // 256 kB are 32 buffers.
    assert_eq!(found.buffers().used(), 64 + 32);
}

#[test]
fn blocks_that_fit_the_page_cache_are_read_from_the_device_once() {
    let accesses: Vec<_> = (0..3000).map(|turn| Some(read(turn * 31 % 100))).collect();
    let kernel = kernel(100 * OWN, 4 * KB, 0);
    let found = after(server(Blocks::Merged(0), 16, 0, Some(kernel)), &accesses);
    let counts = found.kernel().unwrap().counts();
    assert_eq!(reads(&found), (100, 100 * OWN));
    assert_eq!(found.requests().reads - counts.reads_from_cache, 100);
}

#[test]
fn smaller_blocks_have_two_ends_and_scans_need_all_of_a_page() {
    let accesses: Vec<_> = (0..40).map(|turn| Some(read(turn % 10))).collect();
    let spread = |parts| Blocks::Spread {
        parts,
        turns: Vec::new(),
    };
    let found = after(server(spread(4), 1000, 0, None), &accesses);
    assert_eq!(
        (found.requests().reads, found.requests().read_bytes),
        (40, 40 * 2 * KB)
    );
    let found = after(server(Blocks::Concentrated(4), 1000, 0, None), &accesses);
    assert_eq!(found.requests().reads, 10);
    let scan: Vec<_> = (0..10).map(|block| Some(scanned(block))).collect();
    for blocks in [spread(4), Blocks::Concentrated(4)] {
        let found = after(server(blocks, 1000, 0, None), &scan);
        assert_eq!(
            (found.requests().reads, found.requests().read_bytes),
            (40, 80 * KB)
        );
    }
}

#[test]
fn a_change_is_of_the_block_that_was_accessed() {
    // Two blocks a page: each page is read and changed twice, so that each of its blocks is.
    let accesses: Vec<_> = (0..20)
        .flat_map(|turn| {
            let change = access(1, 1, turn % 10, Kind::Change, Strategy::Normal);
            [Some(read(turn % 10)), Some(change)]
        })
        .chain([None])
        .collect();
    let spread = Blocks::Spread {
        parts: 2,
        turns: Vec::new(),
    };
    for (blocks, count) in [(spread, 20), (Blocks::Concentrated(2), 10)] {
        let counts = after(server(blocks, 1000, 0, None), &accesses)
            .buffers()
            .counts();
        assert_eq!(counts.reads, count);
        assert_eq!(
            (counts.checkpoint_writes, counts.full_page_images),
            (count, count)
        );
    }
}

#[test]
fn a_relation_grows_by_as_many_bytes_in_blocks_of_any_size() {
    let accesses: Vec<_> = (0..8)
        .map(|block| Some(access(1, 1, block, Kind::Extend, Strategy::Normal)))
        .collect();
    let spread = Blocks::Spread {
        parts: 4,
        turns: Vec::new(),
    };
    for (blocks, extends) in [
        (Blocks::Merged(0), 8),
        (Blocks::Merged(2), 2),
        (Blocks::Concentrated(2), 16),
        (spread, 32),
    ] {
        let found = after(server(blocks, 1000, 0, None), &accesses);
        assert_eq!(found.buffers().counts().extends, extends);
    }
    // The second half of an evicted block is in a block that must be read.
    let mut evicted = vec![accesses[0]];
    evicted.extend((100..200).map(|block| Some(read(2 * block))));
    evicted.push(accesses[1]);
    let counts = after(server(Blocks::Merged(1), 16, 0, None), &evicted)
        .buffers()
        .counts();
    assert_eq!((counts.extends, counts.reads), (1, 101));
}

#[test]
fn dirty_blocks_are_written_by_checkpoints_and_evictions() {
    let change = |block| Some(access(1, 1, block, Kind::Change, Strategy::Normal));
    let mut accesses = Vec::new();
    for block in 10..14 {
        accesses.extend([Some(read(block)), change(block)]);
    }
    accesses.push(None);
    accesses.extend([Some(read(90)), change(90)]);
    accesses.extend((200..300).map(|block| Some(read(block))));
    let found = after(
        server(Blocks::Merged(0), 16, 0, Some(kernel(1 << 30, 4 * KB, 0))),
        &accesses,
    );
    assert_eq!(
        (found.requests().writes, found.requests().written_bytes),
        (5, 5 * OWN)
    );
    let device = found.kernel().unwrap().device();
    // The checkpoint's four are neighbours: one request. Evicted pages wait in the page cache.
    assert_eq!((device.writes, device.written_bytes), (1, 4 * OWN));
    assert_eq!(found.kernel().unwrap().dirty_bytes(), OWN);
}

/// Four neighbours: one request if they are flushed together, four if each is flushed as it is written. The sync at the
/// end writes what was not flushed.
#[test]
fn a_checkpoint_flushes_after_as_many_blocks_as_it_is_told() {
    let accesses: Vec<_> = (10..14)
        .flat_map(|block| {
            let change = access(1, 1, block, Kind::Change, Strategy::Normal);
            [Some(read(block)), Some(change)]
        })
        .chain([None])
        .collect();
    let writes = |checkpoint| {
        let one = server(Blocks::Merged(0), 16, 0, Some(kernel(1 << 30, 4 * KB, 0)));
        let settings = FlushSettings {
            writer: 0,
            checkpoint,
        };
        let found = after(one.flushing(settings), &accesses);
        let device = found.kernel().unwrap().device();
        (device.writes, device.written_bytes)
    };
    assert_eq!(writes(32), (1, 4 * OWN));
    assert_eq!(writes(2), (2, 4 * OWN));
    assert_eq!(writes(1), (4, 4 * OWN));
    assert_eq!(writes(0), (1, 4 * OWN));
}

#[test]
fn checkpoints_come_every_interval_and_the_kernel_writes_what_is_old() {
    let second = 1_000_000;
    let at = |time: u64, block, kind| {
        Some(Access {
            time: time * second,
            ..access(1, 1, block, kind, Strategy::Normal)
        })
    };
    let accesses: Vec<_> = (1..100)
        .flat_map(|turn| [at(turn, 50, Kind::Read), at(turn, 50, Kind::Change)])
        .collect();
    let writer = WriterSettings {
        delay: 200_000,
        rounds: 600.0,
        most: 100,
        multiplier: 2.0,
        scale: 1,
    };
    let one = server(Blocks::Merged(0), 16, 0, Some(kernel(1 << 30, 4 * KB, 0)));
    let every = |interval: u64, from: u64| Checkpoints::Every {
        interval: interval * second,
        from: from * second,
    };
    let found = after(one.writing(writer, every(30, 0)), &accesses);
    let counts = found.buffers().counts();
    // At 30, 60 and 90 s; the first change, and the first one after each checkpoint, has a page image.
    assert_eq!((counts.checkpoint_writes, counts.full_page_images), (3, 4));
    assert_eq!(found.kernel().unwrap().device().writes, 3);
    // Of a part of a trace: at 75 s, and neither at its beginning nor at 60 and 90 s.
    let one = server(Blocks::Merged(0), 16, 0, Some(kernel(1 << 30, 4 * KB, 0)));
    let never = FlushSettings {
        writer: 0,
        checkpoint: 0,
    };
    let one = one.writing(writer, every(30, 45)).flushing(never);
    let found = after(one, &accesses[88..]);
    let counts = found.buffers().counts();
    assert_eq!((counts.checkpoint_writes, counts.full_page_images), (1, 2));
    // Evicted by others and not written by any checkpoint: the kernel writes it when it has been dirty for 30 s.
    let mut evicted = vec![at(0, 50, Kind::Read), at(0, 50, Kind::Change)];
    evicted.extend((100..200).map(|block| at(1, block, Kind::Read)));
    evicted.extend((2..45).map(|turn| at(turn, 300, Kind::Read)));
    let one = server(Blocks::Merged(0), 16, 0, Some(kernel(1 << 30, 4 * KB, 0)));
    let found = after(one.writing(writer, every(1000, 0)), &evicted);
    assert_eq!(found.requests().writes, 1);
    assert_eq!(found.kernel().unwrap().device().writes, 1);
}

/// The background writer writes three blocks. None has been dirty for 30 s at the end.
#[test]
fn the_background_writer_flushes_after_so_many_blocks() {
    let second = 1_000_000;
    let at = |time: u64, block, kind| {
        Some(Access {
            time: time * second,
            ..access(1, 1, block, kind, Strategy::Normal)
        })
    };
    let mut accesses: Vec<_> = (100..114).map(|block| at(0, block, Kind::Read)).collect();
    for turn in 0..2 {
        for block in [50, 60] {
            accesses.push(at(10 * turn, block, Kind::Read));
            accesses.push(at(10 * turn, block, Kind::Change));
        }
        // The clock sweep passes both once.
        accesses
            .extend((0..8).map(|time| at(10 * turn + time, 200 + 10 * turn + time, Kind::Read)));
    }
    let writer = WriterSettings {
        delay: 200_000,
        rounds: 1.0,
        most: 100,
        multiplier: 2.0,
        scale: 1,
    };
    let written = |blocks: usize| {
        let one = server(Blocks::Merged(0), 16, 0, Some(kernel(1 << 30, 4 * KB, 0)));
        let flushes = FlushSettings {
            writer: blocks,
            checkpoint: 32,
        };
        let one = one.writing(writer, Checkpoints::Recorded).flushing(flushes);
        let found = after(one, &accesses);
        (
            found.buffers().counts().writer_writes,
            found.kernel().unwrap().device().written_bytes / (8 * KB),
        )
    };
    assert_eq!(written(1), (3, 3));
    assert_eq!(written(2), (3, 2));
    assert_eq!(written(64), (3, 0));
    assert_eq!(written(0), (3, 0), "never");
}

#[test]
fn evicted_neighbours_are_written_as_one_request() {
    let second = 1_000_000;
    let at = |time: u64, block, kind| {
        Some(Access {
            time: time * second,
            ..access(1, 1, block, kind, Strategy::Normal)
        })
    };
    let mut accesses = Vec::new();
    // Evicted in this order, by all later accesses: 10 to 12, 30 and 31, and 50 are neighbours.
    for block in [11, 50, 31, 10, 30, 12] {
        accesses.extend([at(0, block, Kind::Read), at(0, block, Kind::Change)]);
    }
    accesses.extend((100..200).map(|block| at(1, block, Kind::Read)));
    accesses.extend((2..45).map(|turn| at(turn, 300, Kind::Read)));
    let writes = |level: u32, dirty_background| {
        let settings = KernelSettings {
            dirty_background,
            ..kernel(1 << 30, 4 * KB, 0)
        };
        let one = server(Blocks::Merged(level), 16, 0, Some(settings));
        let found = after(one, &accesses);
        let device = found.kernel().unwrap().device();
        (
            found.requests().writes,
            device.writes,
            device.written_bytes / OWN,
        )
    };
    // After 30 s, or when more than five blocks are dirty.
    assert_eq!(writes(0, 1 << 30), (6, 3, 6));
    assert_eq!(writes(0, 5 * OWN), (6, 3, 6));
    // Blocks of 16 kB: 10 and 11, 12 and 13; 30 and 31; 50 and 51. The first two are neighbours.
    assert_eq!(writes(1, 1 << 30), (4, 3, 8));
    // Without a threshold each is written alone.
    assert_eq!(writes(0, 0), (6, 6, 6));
}

#[test]
fn a_checkpoint_writes_all_that_is_dirty_in_the_order_of_the_file() {
    let accesses: Vec<_> = (0..128)
        .flat_map(|block| {
            [
                Some(read(2 * block)),
                Some(access(1, 1, 2 * block, Kind::Change, Strategy::Normal)),
            ]
        })
        .chain([None])
        .collect();
    let found = after(
        server(Blocks::Merged(0), 1000, 0, Some(kernel(1 << 30, 4 * KB, 0))),
        &accesses,
    );
    let device = found.kernel().unwrap().device();
    assert_eq!((device.writes, device.written_bytes), (128, 128 * OWN));
    assert_eq!(found.kernel().unwrap().dirty_bytes(), 0);
}

#[test]
fn a_part_of_a_kernel_page_is_written_with_the_rest_of_it() {
    let change = |block| Some(access(1, 1, block, Kind::Change, Strategy::Normal));
    // The page cache holds one page of 64 kB, so that the page is missing when it is written.
    let accesses = [Some(read(8)), change(8), Some(read(800)), None];
    let found = after(
        server(Blocks::Merged(0), 16, 0, Some(kernel(1, 64 * KB, 0))),
        &accesses,
    );
    let device = found.kernel().unwrap().device();
    assert_eq!((device.writes, device.written_bytes), (1, 64 * KB));
    assert_eq!(device.reads, 3);
    assert_eq!(found.kernel().unwrap().counts().pages_read_to_write, 1);
}

#[test]
fn a_segment_is_a_file_of_its_own() {
    let first = SEGMENT / OWN;
    // The first block of a file begins a window, also in the second gigabyte; files end where the relation does.
    let accesses: Vec<_> = [first, first + 1].map(|block| Some(read(block))).to_vec();
    let found = after(
        server(
            Blocks::Merged(0),
            16,
            0,
            Some(kernel(1 << 20, 4 * KB, 128 * KB)),
        ),
        &accesses,
    );
    assert_eq!(reads(&found), (1, 16 * KB));
}
