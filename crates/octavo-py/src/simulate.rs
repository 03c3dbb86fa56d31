use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use octavo_core::simulate::{
    BufferManager, Cache, Clock, Curve, Error, Fifo, Filter, LEVELS, Lru, Pages, Rings,
    SampledDistances, StackDistances, Study, Totals, run,
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::trace::{exception, missing_as_dict, observed, open};

/// The limit of parts into which a trace's pages are divided: each of them reads the whole trace.
const MOST_PARTS: u32 = 1024;

pub(crate) fn failed(error: Error) -> PyErr {
    match error {
        Error::Trace(error) => exception(error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Pages of `wanted` bytes made from the trace's pages. Accesses of smaller ones are spread as far as possible.
fn pages(own: u64, wanted: u64) -> PyResult<Pages> {
    let bad = || {
        PyValueError::new_err(format!(
            "pages of {wanted} bytes cannot be made of pages of {own} bytes"
        ))
    };
    if !wanted.is_power_of_two() || own == 0 {
        return Err(bad());
    }
    if wanted >= own {
        let level = (wanted / own).trailing_zeros();
        return if level < LEVELS {
            Ok(Pages::Merged(level))
        } else {
            Err(bad())
        };
    }
    match own / wanted {
        parts @ 2..=32 => Ok(Pages::split(parts as u8)),
        _ => Err(bad()),
    }
}

fn level(own: u64, wanted: u64) -> PyResult<u32> {
    match pages(own, wanted)? {
        Pages::Merged(level) => Ok(level),
        Pages::Split { .. } => Err(PyValueError::new_err(format!(
            "pages of {wanted} bytes are smaller than those of the trace ({own})"
        ))),
    }
}

pub(crate) fn totals_as_dict(python: Python<'_>, totals: Totals) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(python);
    found.set_item("accesses", totals.accesses)?;
    found.set_item("changes", totals.changes)?;
    found.set_item("page_size", totals.page_size)?;
    found.set_item("missing", missing_as_dict(python, totals.missing)?)?;
    Ok(found)
}

fn simulate(
    python: Python<'_>,
    path: &Path,
    studies: &mut [Study],
    threads: usize,
    observe: &Py<PyAny>,
) -> PyResult<Totals> {
    let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
    observed(python, observe, failed, |observe| {
        run(&mut open(path)?, studies, threads, observe)
    })
}

fn curve_as_dict<'p>(
    python: Python<'p>,
    curve: &Curve,
    page_size: u64,
    layout: &str,
    pages: f64,
    capacities: &[u64],
) -> PyResult<Bound<'p, PyDict>> {
    let found = PyDict::new(python);
    found.set_item("page_size", page_size)?;
    found.set_item("layout", layout)?;
    found.set_item("pages", pages)?;
    let ratios: Vec<f64> = capacities
        .iter()
        .map(|bytes| curve.hit_ratio(bytes / page_size))
        .collect();
    let errors: Vec<f64> = capacities
        .iter()
        .map(|bytes| curve.standard_error(bytes / page_size))
        .collect();
    found.set_item("hit_ratios", ratios)?;
    found.set_item("standard_errors", errors)?;
    Ok(found)
}

/// LRU curves of a trace for pages of each size, in one pass: hit ratios at capacities in bytes. `concentrated`: the
/// smaller sizes that also get such a curve; by default all of them.
#[pyfunction]
#[pyo3(signature = (
    path, own_size, page_sizes, capacities, *, rate, seed, threads, observe, part = (0, 1), concentrated = None
))]
#[expect(clippy::too_many_arguments, reason = "by name")]
pub(crate) fn trace_curves<'p>(
    python: Python<'p>,
    path: PathBuf,
    own_size: u64,
    page_sizes: Vec<u64>,
    capacities: Vec<u64>,
    rate: Option<f64>,
    seed: u32,
    threads: usize,
    observe: Py<PyAny>,
    part: (u32, u32),
    concentrated: Option<Vec<u64>>,
) -> PyResult<(Bound<'p, PyDict>, Vec<Bound<'p, PyDict>>)> {
    if part.0 >= part.1 || part.1 > MOST_PARTS {
        return Err(PyValueError::new_err(format!(
            "no such part: {} of {}",
            part.0, part.1
        )));
    }
    let rate = rate.or((part.1 > 1).then_some(1.0));
    let mut sizes = page_sizes.clone();
    let smaller = || sizes.iter().copied().filter(|&size| size < own_size);
    let concentrated = concentrated.unwrap_or_else(|| smaller().collect());
    if concentrated.contains(&0) {
        return Err(PyValueError::new_err("there are no pages of 0 bytes"));
    }
    if !sizes.contains(&own_size) && !concentrated.is_empty() {
        sizes.push(own_size); // its curve is one limit for smaller pages
    }
    let mut studies = sizes
        .iter()
        .map(|&size| {
            let pages = pages(own_size, size)?;
            Ok(match rate {
                Some(rate) => {
                    let filter = Filter::part(rate, seed, part.0, part.1);
                    Study::Sampled(pages, SampledDistances::new(filter))
                }
                None => Study::Exact(pages, StackDistances::new()),
            })
        })
        .collect::<PyResult<Vec<_>>>()?;
    let totals = simulate(python, &path, &mut studies, threads, &observe)?;
    let curves: Vec<(u64, Curve)> = sizes
        .iter()
        .zip(&studies)
        .filter_map(|(&size, study)| Some((size, study.curve(totals.accesses)?)))
        .collect();
    let own = curves
        .iter()
        .find(|curve| curve.0 == own_size)
        .map(|curve| &curve.1);
    let mut found = Vec::new();
    for (size, curve) in curves.iter().filter(|curve| page_sizes.contains(&curve.0)) {
        let layout = if *size >= own_size {
            "merged"
        } else {
            "spread"
        };
        let pages = curve.pages();
        found.push(curve_as_dict(
            python,
            curve,
            *size,
            layout,
            pages,
            &capacities,
        )?);
    }
    for size in concentrated {
        if let Some(own) = own {
            let pages = own.pages();
            found.push(curve_as_dict(
                python,
                own,
                size,
                "concentrated",
                pages,
                &capacities,
            )?);
        }
    }
    Ok((totals_as_dict(python, totals)?, found))
}

/// A point: page size, shared_buffers, and the rings of bulk reads, bulk writes and VACUUM, all in bytes.
type Point = (u64, u64, u64, u64, u64);

/// PostgreSQL's buffer manager at each point, in one pass.
#[pyfunction]
#[pyo3(signature = (path, own_size, points, *, rate, seed, threads, observe))]
#[expect(clippy::too_many_arguments, reason = "by name")]
pub(crate) fn trace_buffers<'p>(
    python: Python<'p>,
    path: PathBuf,
    own_size: u64,
    points: Vec<Point>,
    rate: Option<f64>,
    seed: u32,
    threads: usize,
    observe: Py<PyAny>,
) -> PyResult<(Bound<'p, PyDict>, Vec<Bound<'p, PyDict>>)> {
    let mut studies = points
        .iter()
        .map(
            |&(page_size, shared_buffers, bulk_read, bulk_write, vacuum)| {
                let rings = Rings {
                    bulk_read,
                    bulk_write,
                    vacuum,
                };
                let filter = rate.map(|rate| Filter::new(rate, seed));
                let manager = BufferManager::new(shared_buffers, page_size, rings, filter);
                Ok(Study::Buffers(level(own_size, page_size)?, manager))
            },
        )
        .collect::<PyResult<Vec<_>>>()?;
    let totals = simulate(python, &path, &mut studies, threads, &observe)?;
    let mut found = Vec::new();
    for (point, study) in points.iter().zip(&studies) {
        let Study::Buffers(_, manager) = study else {
            continue;
        };
        let counts = manager.counts();
        let each = PyDict::new(python);
        each.set_item("page_size", point.0)?;
        each.set_item("shared_buffers", point.1)?;
        each.set_item("hit_ratio", manager.hit_ratio(totals.accesses))?;
        each.set_item("hits", counts.hits)?;
        each.set_item("reads", counts.reads)?;
        each.set_item("extends", counts.extends)?;
        each.set_item("evictions", counts.evictions)?;
        each.set_item("dirty_evictions", counts.dirty_evictions)?;
        each.set_item("checkpoint_writes", counts.checkpoint_writes)?;
        each.set_item("full_page_images", counts.full_page_images)?;
        each.set_item("usage_counts", manager.usage_counts())?;
        found.push(each);
    }
    Ok((totals_as_dict(python, totals)?, found))
}

/// Hits of a textbook policy (lru, fifo or clock) at each capacity in pages, in one pass.
#[pyfunction]
#[pyo3(signature = (path, own_size, page_size, policy, capacities, *, threads, observe))]
#[expect(clippy::too_many_arguments, reason = "by name")]
pub(crate) fn trace_policy<'p>(
    python: Python<'p>,
    path: PathBuf,
    own_size: u64,
    page_size: u64,
    policy: &str,
    capacities: Vec<u32>,
    threads: usize,
    observe: Py<PyAny>,
) -> PyResult<(Bound<'p, PyDict>, Vec<u64>)> {
    let mut studies = capacities
        .iter()
        .map(|&capacity| {
            let cache: Box<dyn Cache + Send> = match policy {
                "lru" => Box::new(Lru::new(capacity)),
                "fifo" => Box::new(Fifo::new(capacity)),
                "clock" => Box::new(Clock::new(capacity)),
                _ => return Err(PyValueError::new_err(format!("unknown policy: {policy:?}"))),
            };
            Ok(Study::Policy(pages(own_size, page_size)?, cache, 0))
        })
        .collect::<PyResult<Vec<_>>>()?;
    let totals = simulate(python, &path, &mut studies, threads, &observe)?;
    let hits = studies.iter().filter_map(Study::hits).collect();
    Ok((totals_as_dict(python, totals)?, hits))
}
