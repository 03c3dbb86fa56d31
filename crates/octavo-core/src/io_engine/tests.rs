//! The engine on real files: every way of reading and writing visits the same blocks.

mod blocks;
mod ends;
mod files;
mod refused;

use std::{fs, path::PathBuf};

use super::{
    Cache, Error, Job, Joining, Kind, Method, Pattern, Progress, Readahead, Run, is_own, make, run,
};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 300;

/// Two files that the engine made, removed at the end.
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

/// Measures; None if the kernel has no io_uring or a sandbox hides it, in which case it cannot be
/// tested.
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
