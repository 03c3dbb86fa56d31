//! The engine on real files: every way of reading and writing visits the same blocks.

use std::{fs, path::PathBuf, time::Duration};

use rustix::fs::{Mode, OFlags, open};

use super::{
    Cache, Error, Job, Joining, Kind, Method, Pattern, Progress, Readahead, Run, is_own, make, run,
};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 300;

/// Two files that the engine made, gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        // Not in /tmp, which may be a tmpfs without O_DIRECT.
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let directory = directory.join(format!("io-engine-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn paths(&self) -> Vec<PathBuf> {
        [("a", 200), ("b", 100)]
            .map(|(name, blocks)| {
                let path = self.0.join(name);
                if !path.exists() {
                    assert!(make(&path, blocks * BLOCK, &mut |_| true).unwrap());
                }
                path
            })
            .to_vec()
    }

    fn job(&self) -> Job {
        Job {
            paths: self.paths(),
            block: BLOCK,
            pattern: Pattern::Random { run: 4 },
            joining: Joining::Single,
            method: Method::Plain,
            write: false,
            direct: false,
            durable: false,
            lose_device: false,
            verify: true,
            threads: 1,
            cache: Cache::Found,
            readahead: Readahead::Normal,
            time: None,
            blocks: None,
            once: true,
            seed: 7,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A kernel without io_uring, or a sandbox that hides it, cannot be tested with it.
fn measured(job: &Job) -> Option<super::Outcome> {
    match run(job, &mut |_| true) {
        Err(Error::NoIoUring(_)) => None,
        outcome => Some(outcome.unwrap()),
    }
}

fn methods() -> [Method; 5] {
    [
        Method::Plain,
        Method::CacheFirst,
        Method::Advised { distance: 8 },
        Method::Vectored,
        Method::Ring { depth: 5 },
    ]
}

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
fn limits_end_it() {
    let scratch = Scratch::new("limits");
    for method in methods() {
        for (cache, threads) in [(Cache::Found, 1), (Cache::Found, 4), (Cache::Cold, 2)] {
            let job = Job {
                method,
                cache,
                threads,
                once: false,
                blocks: Some(1000),
                ..scratch.job()
            };
            let Some(outcome) = measured(&job) else {
                continue;
            };
            assert_eq!(outcome.tally.blocks, 1000, "{method:?} {cache:?} {threads}");
        }
        let job = Job {
            method,
            once: false,
            time: Some(Duration::from_millis(20)),
            ..scratch.job()
        };
        let Some(outcome) = measured(&job) else {
            continue;
        };
        assert!(
            outcome.tally.blocks > 0 && outcome.seconds >= 0.02,
            "{method:?}: {}",
            outcome.seconds
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

#[test]
fn the_observer_ends_it() {
    let scratch = Scratch::new("observer");
    let job = Job {
        once: false,
        time: Some(Duration::from_secs(600)),
        ..scratch.job()
    };
    let outcome = run(&job, &mut |progress| {
        !matches!(progress, Progress::Measuring { .. })
    })
    .unwrap();
    assert!(outcome.stopped && outcome.seconds < 600.0);
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let scratch = Scratch::new("shrinks");
    for method in methods() {
        let job = Job {
            method,
            once: false,
            time: Some(Duration::from_secs(600)),
            ..scratch.job()
        };
        let file = fs::OpenOptions::new()
            .write(true)
            .open(&job.paths[1])
            .unwrap();
        let ended = run(&job, &mut |_| {
            file.set_len(10 * BLOCK).unwrap();
            true
        });
        match ended.unwrap_err() {
            Error::NoIoUring(_) => {}
            error => {
                assert_eq!(error.kind(), Kind::Host);
                assert!(error.to_string().contains(" to 40960 bytes"), "{error}");
            }
        }
        fs::remove_file(&job.paths[1]).unwrap();
    }
}

#[test]
fn a_wrong_byte_is_found_by_every_way_of_reading() {
    use std::os::unix::fs::FileExt as _;

    let scratch = Scratch::new("wrong");
    let path = &scratch.paths()[1];
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .write_all_at(b"?", 5 * BLOCK + 700)
        .unwrap();
    for method in methods() {
        let job = Job {
            method,
            joining: Joining::Coalesced { most: 8, hole: 0 },
            ..scratch.job()
        };
        match run(&job, &mut |_| true).unwrap_err() {
            Error::NoIoUring(_) => {}
            error => assert!(
                error
                    .to_string()
                    .contains(&format!("at byte {} ", 5 * BLOCK + 512)),
                "{error}"
            ),
        }
    }
}

#[test]
fn a_file_is_made_whole_or_not_at_all() {
    let scratch = Scratch::new("made");
    let path = scratch.0.join("new");
    let nameless = OFlags::TMPFILE | OFlags::WRONLY;
    let can_be_nameless = open(&scratch.0, nameless, Mode::RWXU).is_ok();
    let mut seen_half_made = false;
    let mut observe = |_| {
        seen_half_made |= path.exists();
        false
    };
    assert!(!make(&path, 3 << 20, &mut observe).unwrap());
    assert!(!path.exists() && seen_half_made != can_be_nameless);
    let too_large = make(&path, 1 << 62, &mut |_| true).unwrap_err();
    assert!(
        too_large.to_string().contains("make room") && !path.exists(),
        "{too_large}"
    );
    assert!(make(&path, 512, &mut |_| true).unwrap() && is_own(&path).unwrap());
    assert!(
        make(&path, 512, &mut |_| true).is_err(),
        "what is there is not touched"
    );
    assert!(make(&scratch.0.join("odd"), 513, &mut |_| true).is_err());
    fs::write(scratch.0.join("other"), vec![0; 4096]).unwrap();
    assert!(!is_own(&scratch.0.join("other")).unwrap());
}

#[test]
fn a_job_that_makes_no_sense_is_refused() {
    let scratch = Scratch::new("refused");
    let good = scratch.job();
    let refused = [
        Job {
            block: 1000,
            ..good.clone()
        },
        Job {
            block: 0,
            ..good.clone()
        },
        Job {
            threads: 0,
            ..good.clone()
        },
        Job {
            method: Method::Ring { depth: 0 },
            ..good.clone()
        },
        Job {
            method: Method::Advised {
                distance: 99_999_999_999,
            },
            ..good.clone()
        },
        Job {
            method: Method::Ring { depth: 32_768 },
            joining: Joining::Coalesced { most: 16, hole: 0 },
            ..good.clone()
        },
        Job {
            method: Method::Vectored,
            joining: Joining::Coalesced {
                most: 1025,
                hole: 0,
            },
            ..good.clone()
        },
        Job {
            method: Method::Vectored,
            write: true,
            ..good.clone()
        },
        Job {
            joining: Joining::Coalesced { most: 4, hole: 1 },
            write: true,
            ..good.clone()
        },
        Job {
            method: Method::CacheFirst,
            direct: true,
            ..good.clone()
        },
        Job {
            joining: Joining::Run { most: 0 },
            ..good.clone()
        },
        Job {
            once: false,
            ..good
        },
    ];
    for job in refused {
        let error = run(&job, &mut |_| true).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
    }
}
