//! How a run ends: a limit, the observer, a file that has changed since it was made.

use std::{fs, time::Duration};

use super::*;
use crate::io_engine::{OpenFile, open_file::LOOK};

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
fn a_short_read_of_a_whole_file_is_no_truncation() {
    let scratch = Scratch::new("short");
    let file = OpenFile::open(&scratch.paths()[0], LOOK).unwrap();
    let error = file.short_read(BLOCK, 512);
    assert_eq!(error.kind(), Kind::Host);
    let said = "read at byte 4096: only 512 bytes were read; check the kernel log";
    assert!(error.to_string().contains(said), "{error}");
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
