//! The timed loops: no allocation, no lock and no shared counter per request.

mod ring;
mod sequence;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{
    Error, Job, Method, Tally,
    file_set::FileSet,
    pattern::{Passes, Share, Walk},
    policy::Requests,
};

/// A thread's progress, for the observer; on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One thread's part of one lap.
pub(super) struct Task<'a> {
    pub(super) files: &'a FileSet,
    pub(super) job: &'a Job,
    pub(super) share: Share,
    pub(super) passes: Passes,
    pub(super) seed: u64,
    pub(super) most_blocks: u64,
    pub(super) stop: &'a AtomicBool,
    pub(super) counter: &'a Counter,
}

impl<'a> Task<'a> {
    fn requests(&self) -> Requests<'a, impl Fn(u64) -> u64 + use<'a>> {
        let files = self.files;
        let walk = Walk::new(
            &self.job.pattern,
            files.blocks(),
            self.seed,
            self.share,
            self.passes,
            self.most_blocks,
        );
        Requests::new(walk, self.job.joining, move |block| {
            files.end_of_file(block)
        })
    }

    /// Publishes the progress, and returns whether to continue.
    #[inline]
    fn goes_on(&self, tally: &Tally, now: u64, deadline: u64) -> bool {
        self.counter.0.store(tally.blocks, Ordering::Relaxed);
        now < deadline && !self.stop.load(Ordering::Relaxed)
    }
}

/// Buffers and a ring, created before the timing begins.
pub(super) struct Engine(Way);

enum Way {
    Sequence(sequence::Sequence),
    Ring(Box<ring::Ring>),
}

impl Engine {
    pub(super) fn prepare(job: &Job, files: &FileSet) -> Result<Self, Error> {
        match job.method {
            Method::Ring { depth } => {
                ring::Ring::prepare(job, files, depth).map(|ring| Self(Way::Ring(Box::new(ring))))
            }
            _ => Ok(Self(Way::Sequence(sequence::Sequence::prepare(job)))),
        }
    }

    /// Works until its blocks are done, the deadline is over, or it is stopped.
    pub(super) fn work(
        &mut self,
        task: &Task<'_>,
        begun: u64,
        deadline: u64,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        match &mut self.0 {
            Way::Sequence(sequence) => sequence.work(task, begun, deadline, tally),
            Way::Ring(ring) => ring.work(task, begun, deadline, tally),
        }
    }
}
