//! One measurement from beginning to end: files, page cache, threads, counters.

use std::{
    fs,
    path::Path,
    sync::{
        RwLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use rustix::fs::Advice;

use super::{
    Cache, Error, Job, Method, Readahead, Tally, clock,
    engine::{Counter, Engine, Task},
    file_set::FileSet,
    open_file::Access,
    page_cache,
    pattern::{Passes, Share},
};
use crate::block_device::{self, DISKSTATS, DeviceNumber};

/// The interval of calls to the observer.
const GLANCE: Duration = Duration::from_millis(100);

/// What the observer gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The page cache is being filled: bytes read so far, and in total.
    Filling {
        /// So far.
        done: u64,
        /// In total.
        total: u64,
    },
    /// A new file is being written: bytes so far, and in total.
    Making {
        /// So far.
        done: u64,
        /// In total.
        total: u64,
    },
    /// The measurement is running: its seconds and blocks so far.
    Measuring {
        /// Since the measurement began, without the preparation of laps.
        seconds: f64,
        /// Blocks so far.
        blocks: u64,
    },
}

/// The result of a measurement.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The duration, including the write-back at the end.
    pub seconds: f64,
    /// The duration of the write-back at the end.
    pub sync_seconds: f64,
    /// The sum over all threads.
    pub tally: Tally,
    /// The devices' work during the measurement, for any process; None if it is unknown.
    pub device: Option<DeviceWork>,
    /// Bytes of the files in the page cache at the beginning; None if the kernel cannot report it, or with `O_DIRECT`.
    pub cached_bytes: Option<u64>,
    /// Bytes of all files' whole blocks.
    pub file_bytes: u64,
    /// The number of laps over all blocks, including an incomplete one.
    pub laps: u64,
    /// Whether the observer ended it.
    pub stopped: bool,
}

/// Requests that reached devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWork {
    /// Reads.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
}

impl DeviceWork {
    /// Adds the work between two readings; None if a counter was reset between them, for example because the device was
    /// removed and attached again.
    fn and_between(self, before: Self, after: Self) -> Option<Self> {
        Some(Self {
            reads: self.reads + after.reads.checked_sub(before.reads)?,
            read_bytes: self.read_bytes + after.read_bytes.checked_sub(before.read_bytes)?,
            writes: self.writes + after.writes.checked_sub(before.writes)?,
            written_bytes: self.written_bytes
                + after.written_bytes.checked_sub(before.written_bytes)?,
        })
    }
}

/// Runs a measurement. `observe` is called regularly, on the caller's thread, and ends it by returning false.
///
/// # Errors
///
/// Whatever prevents the measurement; requests that were in flight have completed by then.
pub fn run(job: &Job, observe: &mut dyn FnMut(Progress) -> bool) -> Result<Outcome, Error> {
    job.check()?;
    let files = FileSet::open(
        &job.paths,
        job.block,
        Access {
            write: job.write,
            direct: job.direct,
            durable: job.durable && job.write,
            lose_device: job.lose_device,
        },
    )?;
    job.pattern.check(files.blocks())?;
    files.advise(match job.readahead {
        Readahead::Normal => Advice::Normal,
        Readahead::Random => Advice::Random,
        Readahead::Sequential => Advice::Sequential,
    })?;
    let mut outcome = Outcome {
        seconds: 0.0,
        sync_seconds: 0.0,
        tally: Tally::new(),
        device: Some(DeviceWork::default()),
        cached_bytes: None,
        file_bytes: files.blocks() * job.block,
        laps: 0,
        stopped: false,
    };
    if job.cache == Cache::Warm && !job.direct {
        let total = files.files().iter().map(|file| file.length).sum();
        page_cache::fill(&files, &mut |done| {
            outcome.stopped = !observe(Progress::Filling { done, total });
            !outcome.stopped
        })?;
    }
    let began = clock::now();
    while !outcome.stopped && goes_on(job, &outcome, began) {
        if job.cache == Cache::Cold && !job.direct {
            page_cache::empty(&files)?;
        }
        if outcome.laps == 0 && !job.direct {
            outcome.cached_bytes = page_cache::held(&files);
        }
        lap(job, &files, &mut outcome, observe)?;
    }
    Ok(outcome)
}

/// Whether time and blocks are left for another lap.
fn goes_on(job: &Job, outcome: &Outcome, began: u64) -> bool {
    let time_left = job.time.is_none_or(|time| {
        // Preparing laps over a small file takes longer than running them: stop after three times the requested time.
        outcome.seconds < time.as_secs_f64()
            && seconds(clock::now() - began) < 3.0 * time.as_secs_f64()
    });
    let enough = outcome.laps > 0 && (job.once || outcome.tally.blocks == 0);
    time_left && !enough && job.blocks.is_none_or(|most| outcome.tally.blocks < most)
}

/// The result of a thread.
struct Done {
    tally: Tally,
    begun: u64,
    ended: u64,
    result: Result<(), Error>,
}

/// One thread's lap: everything is prepared before the threads start together, and freed after the timing has ended.
/// It is `ready` when that sender is gone, and begins when the `gate` is open.
fn work(task: &Task<'_>, nanoseconds: u64, ready: Sender<()>, gate: &RwLock<()>) -> Done {
    let engine = Engine::prepare(task.job, task.files);
    let mut tally = Tally::new();
    drop(ready);
    drop(gate.read());
    let (cpu, begun) = (clock::thread_cpu(), clock::now());
    let deadline = begun.saturating_add(nanoseconds);
    let (result, engine) = match engine {
        Ok(mut engine) => (engine.work(task, begun, deadline, &mut tally), Some(engine)),
        Err(error) => (Err(error), None),
    };
    let ended = clock::now();
    tally.cpu = clock::thread_cpu() - cpu;
    drop(engine);
    Done {
        tally,
        begun,
        ended,
        result,
    }
}

/// Runs all threads once over their blocks, or until time or blocks are used up.
fn lap(
    job: &Job,
    files: &FileSet,
    outcome: &mut Outcome,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<(), Error> {
    let stop = AtomicBool::new(false);
    let counters: Vec<Counter> = (0..job.threads).map(|_| Counter::default()).collect();
    let gate = RwLock::new(());
    let (ready, all_ready) = mpsc::channel();
    let (sender, receiver) = mpsc::channel();
    let blocks_left = job
        .blocks
        .map_or(u64::MAX, |most| most - outcome.tally.blocks);
    let time_left = job.time.map_or(u64::MAX / 2, |time| {
        (time.as_nanos() as u64).saturating_sub((outcome.seconds * 1e9) as u64)
    });
    let passes = if job.once || (job.cache == Cache::Cold && !job.direct) {
        Passes::One
    } else {
        Passes::Endless
    };
    let mut done: Vec<Done> = Vec::with_capacity(counters.len());

    let (device_before, helpers, not_started) = thread::scope(|scope| {
        let closed = gate.write();
        let mut not_started = None;
        for (thread, counter) in (0..).zip(&counters) {
            let share = Share {
                thread,
                threads: job.threads,
            };
            let part = share.of(blocks_left);
            let task = Task {
                files,
                job,
                share,
                passes,
                seed: job.seed.wrapping_add(outcome.laps << 32),
                most_blocks: part.end - part.start,
                stop: &stop,
                counter,
            };
            let (sender, ready, gate) = (sender.clone(), ready.clone(), &gate);
            let spawned = thread::Builder::new().spawn_scoped(scope, move || {
                // The receiver is gone only if the caller is unwinding.
                let _ = sender.send(work(&task, time_left, ready, gate));
            });
            if let Err(source) = spawned {
                stop.store(true, Ordering::Relaxed);
                not_started = Some(source);
                break;
            }
        }
        drop((sender, ready));
        let device_before = device_work(&files.devices());
        while all_ready.recv().is_ok() {} // nothing is sent: it ends when every thread has dropped its sender
        drop(closed);
        let helpers = CpuOfOthers::begin();
        let begun = clock::now();
        while done.len() < counters.len() {
            match receiver.recv_timeout(GLANCE) {
                Ok(one) => {
                    if one.result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    done.push(one);
                }
                Err(RecvTimeoutError::Disconnected) => break, // a thread has panicked; the scope reports it
                Err(RecvTimeoutError::Timeout) => {
                    let blocks =
                        outcome.tally.blocks + counters.iter().map(Counter::get).sum::<u64>();
                    let seconds = outcome.seconds + seconds(clock::now() - begun);
                    if !observe(Progress::Measuring { seconds, blocks }) {
                        outcome.stopped = true;
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        (device_before, helpers.end(), not_started)
    });

    if let Some(source) = not_started {
        return Err(Error::Refused {
            path: files.files()[0].path.clone(),
            action: format!("start {} threads", job.threads),
            source,
            way_out: "use fewer --threads, or raise the limit on processes (ulimit -u, or pids.max of the control group)",
        });
    }
    let begun = done.iter().map(|one| one.begun).min().unwrap_or_default();
    let ended = done.iter().map(|one| one.ended).max().unwrap_or_default();
    let mut of_lap = Tally::new();
    for one in done {
        one.result?;
        of_lap.add(&one.tally);
    }
    if matches!(job.method, Method::Ring { .. }) {
        // Some requests are executed by kernel threads, whose CPU time is not charged to our threads.
        of_lap.cpu = of_lap.cpu.max(helpers);
    }
    outcome.tally.add(&of_lap);
    outcome.seconds += seconds(ended - begun);
    outcome.laps += 1;
    if job.write {
        let began = clock::now();
        files.sync()?;
        let synced = seconds(clock::now() - began);
        outcome.seconds += synced;
        outcome.sync_seconds += synced;
    }
    outcome.device = outcome
        .device
        .zip(device_before.zip(device_work(&files.devices())))
        .and_then(|(sum, (before, after))| sum.and_between(before, after));
    Ok(())
}

/// CPU time of this process without the calling thread, which only waits and shows progress.
struct CpuOfOthers(u64);

impl CpuOfOthers {
    fn begin() -> Self {
        Self(Self::now())
    }

    fn end(self) -> u64 {
        Self::now().saturating_sub(self.0)
    }

    fn now() -> u64 {
        clock::process_cpu().saturating_sub(clock::thread_cpu())
    }
}

/// The sum of the devices' counters; None if there is no device, or one is not listed.
fn device_work(devices: &[DeviceNumber]) -> Option<DeviceWork> {
    if devices.is_empty() {
        return None;
    }
    let listed = block_device::parse(&fs::read_to_string(Path::new(DISKSTATS)).ok()?).ok()?;
    devices
        .iter()
        .try_fold(DeviceWork::default(), |sum, device| {
            let one = listed.iter().find(|one| one.device == *device)?;
            Some(DeviceWork {
                reads: sum.reads + one.reads,
                read_bytes: sum.read_bytes + one.read_bytes,
                writes: sum.writes + one.writes,
                written_bytes: sum.written_bytes + one.written_bytes,
            })
        })
}

fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_began_anew_says_nothing() {
        let at = |reads| DeviceWork {
            reads,
            read_bytes: reads * 512,
            ..DeviceWork::default()
        };
        assert_eq!(at(1).and_between(at(5), at(7)), Some(at(3)));
        assert_eq!(at(1).and_between(at(7), at(5)), None);
    }
}
