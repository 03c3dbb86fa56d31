//! The blocks that each method reads and writes.

use std::fs;

use super::*;

#[test]
fn every_way_of_reading_delivers_every_block_once() {
    let scratch = Scratch::new("reading");
    for method in methods() {
        for joining in [
            Joining::Single,
            Joining::Run { most: 16 },
            Joining::Coalesced { most: 7, hole: 1 },
        ] {
            for threads in [1, 3] {
                let job = Job {
                    method,
                    joining,
                    threads,
                    ..scratch.job()
                };
                let Some(outcome) = measured(&job) else {
                    continue;
                };
                let what = format!("{method:?} {joining:?} {threads}");
                assert_eq!(outcome.tally.blocks, BLOCKS, "{what}");
                assert_eq!(
                    outcome.tally.latency.len(),
                    outcome.tally.requests,
                    "{what}"
                );
                assert!(outcome.tally.bytes >= BLOCKS * BLOCK, "{what}");
                if joining == Joining::Single {
                    assert_eq!(outcome.tally.requests, BLOCKS, "{what}");
                }
            }
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    let scratch = Scratch::new("writing");
    for method in [Method::Plain, Method::Ring { depth: 4 }] {
        let joining = Joining::Coalesced { most: 9, hole: 0 };
        let write = Job {
            method,
            joining,
            write: true,
            ..scratch.job()
        };
        let before = fs::read(&write.paths[0]).unwrap();
        let seed = if method == Method::Plain { 100 } else { 200 };
        let Some(outcome) = measured(&Job {
            seed,
            ..write.clone()
        }) else {
            continue;
        };
        assert_eq!(outcome.tally.blocks, BLOCKS);
        assert_ne!(
            fs::read(&write.paths[0]).unwrap(),
            before,
            "every write has a number of its own"
        );
        assert_eq!(measured(&scratch.job()).unwrap().tally.blocks, BLOCKS);
        assert!(write.paths.iter().all(|path| is_own(path).unwrap()));
    }
}

#[test]
fn holes_are_read_and_not_delivered() {
    let scratch = Scratch::new("holes");
    let list = [(1, 5), (7, 4)].map(|(first, blocks)| Run { first, blocks });
    let job = Job {
        pattern: Pattern::of_list(list).unwrap(),
        joining: Joining::Coalesced { most: 32, hole: 1 },
        ..scratch.job()
    };
    for method in methods() {
        let Some(outcome) = measured(&Job {
            method,
            ..job.clone()
        }) else {
            continue;
        };
        assert_eq!(outcome.tally.blocks, 9, "{method:?}");
        let (requests, bytes) = if method == Method::CacheFirst {
            (1 + 9, 19)
        } else {
            (1, 10)
        };
        assert_eq!(
            (outcome.tally.requests, outcome.tally.bytes),
            (requests, bytes * BLOCK),
            "{method:?}"
        );
    }
}

#[test]
fn a_cold_lap_meets_nothing_in_the_cache() {
    let scratch = Scratch::new("cold");
    let job = Job {
        cache: Cache::Cold,
        readahead: Readahead::Random,
        ..scratch.job()
    };
    let outcome = measured(&job).unwrap();
    assert!(
        outcome.cached_bytes.is_none_or(|cached| cached == 0),
        "{:?}",
        outcome.cached_bytes
    );
    let outcome = measured(&Job {
        cache: Cache::Warm,
        ..job
    })
    .unwrap();
    assert!(
        outcome
            .cached_bytes
            .is_none_or(|cached| cached >= outcome.file_bytes),
        "{:?}",
        outcome.cached_bytes
    );
}
