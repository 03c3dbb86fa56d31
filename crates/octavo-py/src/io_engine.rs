use std::{path::PathBuf, time::Duration};

use octavo_core::io_engine::{
    self, Cache, Error, Job, Joining, Kind, Method, Outcome, Pattern, Progress, Readahead,
};
use pyo3::{
    exceptions::{PyAssertionError, PyNotImplementedError, PyOSError, PyValueError},
    prelude::*,
};

/// The attributes of `octavo.io.job.Job`.
#[derive(FromPyObject)]
pub(crate) struct PyJob {
    paths: Vec<PathBuf>,
    block: u64,
    pattern: String,
    run: u64,
    stride: u64,
    block_list: Option<String>,
    joining: String,
    most: u64,
    hole: u64,
    method: String,
    distance: u64,
    depth: u32,
    write: bool,
    direct: bool,
    durable: bool,
    lose_device: bool,
    verify: bool,
    threads: u64,
    cache: String,
    readahead: String,
    seconds: Option<f64>,
    blocks: Option<u64>,
    once: bool,
    seed: u64,
}

impl TryFrom<PyJob> for Job {
    type Error = PyErr;

    fn try_from(job: PyJob) -> PyResult<Self> {
        let pattern = match job.pattern.as_str() {
            "sequential" => Pattern::Sequential { run: job.run },
            "random" => Pattern::Random { run: job.run },
            "strided" => Pattern::Strided {
                run: job.run,
                stride: job.stride,
            },
            "list" => {
                let text = job.block_list.as_deref().unwrap_or_default();
                io_engine::parse_block_list(text)
                    .and_then(Pattern::of_list)
                    .map_err(|error| exception(&error))?
            }
            other => return Err(unknown("pattern", other)),
        };
        let joining = match job.joining.as_str() {
            "single" => Joining::Single,
            "run" => Joining::Run { most: job.most },
            "coalesced" => Joining::Coalesced {
                most: job.most,
                hole: job.hole,
            },
            other => return Err(unknown("joining", other)),
        };
        let method = match job.method.as_str() {
            "plain" => Method::Plain,
            "cache-first" => Method::CacheFirst,
            "advised" => Method::Advised {
                distance: job.distance,
            },
            "vectored" => Method::Vectored,
            "ring" => Method::Ring { depth: job.depth },
            other => return Err(unknown("method", other)),
        };
        let cache = match job.cache.as_str() {
            "cold" => Cache::Cold,
            "warm" => Cache::Warm,
            "found" => Cache::Found,
            other => return Err(unknown("cache", other)),
        };
        let readahead = match job.readahead.as_str() {
            "normal" => Readahead::Normal,
            "random" => Readahead::Random,
            "sequential" => Readahead::Sequential,
            other => return Err(unknown("readahead", other)),
        };
        let time = job
            .seconds
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(|error| PyValueError::new_err(format!("seconds: {error}")))?;
        Ok(Self {
            paths: job.paths,
            block: job.block,
            pattern,
            joining,
            method,
            write: job.write,
            direct: job.direct,
            durable: job.durable,
            lose_device: job.lose_device,
            verify: job.verify,
            threads: job.threads,
            cache,
            readahead,
            time,
            blocks: job.blocks,
            once: job.once,
            seed: job.seed,
        })
    }
}

/// The result of one measurement.
#[pyclass(frozen, module = "octavo._core")]
pub(crate) struct IoOutcome(Outcome);

#[pymethods]
impl IoOutcome {
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.seconds
    }

    #[getter]
    fn sync_seconds(&self) -> f64 {
        self.0.sync_seconds
    }

    #[getter]
    fn cpu_seconds(&self) -> f64 {
        Duration::from_nanos(self.0.tally.cpu).as_secs_f64()
    }

    #[getter]
    fn requests(&self) -> u64 {
        self.0.tally.requests
    }

    #[getter]
    fn blocks(&self) -> u64 {
        self.0.tally.blocks
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.tally.bytes
    }

    #[getter]
    fn file_bytes(&self) -> u64 {
        self.0.file_bytes
    }

    #[getter]
    fn cached_bytes(&self) -> Option<u64> {
        self.0.cached_bytes
    }

    #[getter]
    fn laps(&self) -> u64 {
        self.0.laps
    }

    #[getter]
    fn device(&self) -> Option<(u64, u64, u64, u64)> {
        self.0
            .device
            .map(|work| (work.reads, work.read_bytes, work.writes, work.written_bytes))
    }

    fn latency(&self, quantile: f64) -> f64 {
        self.0.tally.latency.value_at_quantile(quantile) as f64 / 1e9
    }

    fn latency_mean(&self) -> f64 {
        self.0.tally.latency.mean() / 1e9
    }
}

/// Runs a measurement; `observe(phase, done, total)` is called regularly while the interpreter's lock is held.
#[pyfunction]
pub(crate) fn io_run(python: Python<'_>, job: PyJob, observe: Py<PyAny>) -> PyResult<IoOutcome> {
    let job = Job::try_from(job)?;
    observed(python, observe, |observe| io_engine::run(&job, observe)).map(IoOutcome)
}

/// Makes a new file with contents that can be checked.
#[pyfunction]
pub(crate) fn io_make(
    python: Python<'_>,
    path: PathBuf,
    bytes: u64,
    observe: Py<PyAny>,
) -> PyResult<bool> {
    observed(python, observe, |observe| {
        io_engine::make(&path, bytes, observe)
    })
}

/// Whether `io_make` made this file.
#[pyfunction]
pub(crate) fn io_is_own(python: Python<'_>, path: PathBuf) -> PyResult<bool> {
    python
        .detach(|| io_engine::is_own(&path))
        .map_err(|error| exception(&error))
}

/// Runs `work` without the interpreter's lock. Its observer takes the lock, handles signals (Ctrl-C) and calls
/// `observe`; an exception of either ends the work and is raised here.
fn observed<T: Send>(
    python: Python<'_>,
    observe: Py<PyAny>,
    work: impl FnOnce(&mut dyn FnMut(Progress) -> bool) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = python.detach(|| {
        work(&mut |progress| {
            let told = Python::attach(|python| {
                python.check_signals()?;
                let (phase, done, total) = match progress {
                    Progress::Filling { done, total } => ("filling", done as f64, total),
                    Progress::Making { done, total } => ("making", done as f64, total),
                    Progress::Measuring { seconds, blocks } => ("measuring", seconds, blocks),
                };
                observe.call1(python, (phase, done, total)).map(drop)
            });
            raised = told.err();
            raised.is_none()
        })
    });
    match raised {
        Some(error) => Err(error),
        None => result.map_err(|error| exception(&error)),
    }
}

fn unknown(what: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!("invalid {what}: {value:?}"))
}

fn exception(error: &Error) -> PyErr {
    let message = error.to_string();
    match error.kind() {
        Kind::Usage => PyValueError::new_err(message),
        Kind::Host => PyOSError::new_err(message),
        Kind::Unsupported => PyNotImplementedError::new_err(message),
        Kind::Corrupt => PyAssertionError::new_err(message),
    }
}
