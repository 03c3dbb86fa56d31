use std::{num::NonZeroUsize, path::PathBuf};

use octavo_core::simulate::{
    Blocks, BufferManager, Checkpoints, FlushSettings, Kernel, KernelSettings, LEVELS, Lean,
    LogSettings, Rings, Sample, SelfSimilar, Server, Snapshot, WriterSettings, run_sampled,
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    simulate::{failed, totals_as_dict},
    trace::{observed, open},
};

/// The default of vm.dirty_background_ratio is 10 %.
const DIRTY_PART: u64 = 10;
/// The limit for bytes of WAL per second, and for bytes of an image: no server has more.
const MOST_LOGGED: f64 = 1e11;

/// `octavo.trace.simulate.SimulatedServer`. Sizes are in bytes.
#[derive(FromPyObject)]
pub(crate) struct Point {
    data_block: u64,
    layout: String,
    shared_buffers: u64,
    bulk_read_ring: u64,
    bulk_write_ring: u64,
    vacuum_ring: u64,
    combine_limit: u64,
    page_cache: Option<u64>,
    kernel_page: u64,
    readahead: u64,
    largest_request: u64,
    dirty_background: Option<u64>,
    dirty_expire: u64,
    writer_delay: u64,
    writer_rounds: f64,
    writer_pages: u64,
    writer_multiplier: f64,
    writer_flush: usize,
    checkpoint_flush: usize,
    checkpoint_interval: Option<u64>,
    checkpoint_from: u64,
    log_rate: f64,
    log_image: f64,
    log_kept: u64,
}

fn blocks(own: u64, point: &Point) -> PyResult<Blocks> {
    let wanted = point.data_block;
    let bad = || {
        PyValueError::new_err(format!(
            "blocks of {wanted} bytes cannot be made of pages of {own} bytes"
        ))
    };
    if !wanted.is_power_of_two() || own == 0 {
        return Err(bad());
    }
    if wanted >= own {
        let level = (wanted / own).trailing_zeros();
        return if level < LEVELS {
            Ok(Blocks::Merged(level))
        } else {
            Err(bad())
        };
    }
    match (own / wanted, point.layout.as_str()) {
        (parts @ 2..=32, "spread") => Ok(Blocks::Spread {
            parts: parts as u8,
            turns: Vec::new(),
        }),
        (parts @ 2..=32, "self_similar" | "self_similar_together" | "self_similar_apart") => {
            let lean = match point.layout.as_str() {
                "self_similar" => Lean::Even,
                "self_similar_together" => Lean::Together,
                _ => Lean::Apart,
            };
            Ok(Blocks::SelfSimilar(SelfSimilar::new(parts as u8, lean)))
        }
        (parts @ 2..=32, _) => Ok(Blocks::Concentrated(parts as u8)),
        _ => Err(bad()),
    }
}

/// A server, or a miniature of it whose trace has one page of `scale`: its caches, and what it writes in the
/// background, are smaller by this factor.
fn server(own: u64, point: &Point, scale: u64) -> PyResult<Server> {
    let ring = |bytes: u64| {
        if bytes < point.data_block {
            bytes
        } else {
            (bytes / scale).max(point.data_block)
        }
    };
    let rings = Rings {
        bulk_read: ring(point.bulk_read_ring),
        bulk_write: ring(point.bulk_write_ring),
        vacuum: ring(point.vacuum_ring),
    };
    if !point.kernel_page.is_power_of_two() {
        return Err(PyValueError::new_err(
            "the kernel page size must be a power of two",
        ));
    }
    let buffers = BufferManager::new(point.shared_buffers / scale, point.data_block, rings, None);
    let kernel = point.page_cache.map(|memory| {
        Kernel::new(KernelSettings {
            memory,
            page_size: point.kernel_page,
            readahead: point.readahead,
            largest_request: point.largest_request,
            dirty_background: point.dirty_background.unwrap_or(memory / DIRTY_PART),
            dirty_expire: point.dirty_expire,
            scale,
        })
    });
    Ok(Server::new(
        own,
        blocks(own, point)?,
        buffers,
        point.combine_limit,
        kernel,
    )
    .logging(LogSettings {
        rate: point.log_rate.clamp(0.0, MOST_LOGGED) / scale as f64,
        image: point.log_image.clamp(0.0, MOST_LOGGED),
        kept: point.log_kept / scale,
    })
    .flushing(FlushSettings {
        writer: point.writer_flush,
        checkpoint: point.checkpoint_flush,
    })
    .writing(
        WriterSettings {
            delay: point.writer_delay,
            rounds: point.writer_rounds,
            most: point.writer_pages,
            multiplier: point.writer_multiplier,
            scale,
        },
        point
            .checkpoint_interval
            .map_or(Checkpoints::Recorded, |interval| Checkpoints::Every {
                interval,
                from: point.checkpoint_from,
            }),
    )
    .miniature(scale))
}

fn as_dict<'p>(python: Python<'p>, server: &Server) -> PyResult<Bound<'p, PyDict>> {
    if server.kernel().is_some_and(Kernel::has_too_many) {
        return Err(PyValueError::new_err(
            "the trace touches more than 2^27 kernel pages; name a larger --kernel-page, or cut it with octavo trace cut",
        ));
    }
    let snapshots = server.snapshots();
    let last = snapshots.last().copied().unwrap_or_default();
    let found = counts_as_dict(python, &last, server.kernel())?;
    let series = snapshots
        .iter()
        .map(|snapshot| counts_as_dict(python, snapshot, server.kernel()))
        .collect::<PyResult<Vec<_>>>()?;
    found.set_item("series", series)?;
    Ok(found)
}

fn counts_as_dict<'p>(
    python: Python<'p>,
    snapshot: &Snapshot,
    kernel: Option<&Kernel>,
) -> PyResult<Bound<'p, PyDict>> {
    let found = PyDict::new(python);
    let (counts, requests) = (snapshot.buffers, snapshot.requests);
    found.set_item("time", snapshot.time)?;
    found.set_item("trace_accesses", snapshot.ordinal)?;
    found.set_item("taken_accesses", snapshot.taken)?;
    found.set_item("accesses", counts.hits + counts.reads + counts.extends)?;
    found.set_item("hits", counts.hits)?;
    found.set_item("reads", counts.reads)?;
    found.set_item("first_reads", snapshot.first_reads)?;
    found.set_item("extends", counts.extends)?;
    found.set_item("evictions", counts.evictions)?;
    found.set_item("dirty_evictions", counts.dirty_evictions)?;
    found.set_item("checkpoint_writes", counts.checkpoint_writes)?;
    found.set_item("writer_writes", counts.writer_writes)?;
    found.set_item("full_page_images", counts.full_page_images)?;
    found.set_item("requests", requests.reads)?;
    found.set_item("requested_bytes", requests.read_bytes)?;
    let (Some(counts), Some(device), Some(kernel)) = (snapshot.kernel, snapshot.device, kernel)
    else {
        found.set_item("page_cache", python.None())?;
        return Ok(found);
    };
    let below = PyDict::new(python);
    below.set_item("requests_from_cache", counts.reads_from_cache)?;
    below.set_item("pages_wanted", counts.pages_wanted)?;
    below.set_item("pages_missing", counts.pages_missing)?;
    below.set_item("pages_read_to_write", counts.pages_read_to_write)?;
    below.set_item("pages_read_first", counts.pages_read_first)?;
    below.set_item("device_reads", device.reads)?;
    below.set_item("device_read_bytes", device.read_bytes)?;
    below.set_item("device_writes", device.writes)?;
    below.set_item("device_written_bytes", device.written_bytes)?;
    below.set_item("dirty_bytes", kernel.dirty_bytes())?;
    found.set_item("page_cache", below)?;
    Ok(found)
}

/// What servers with these settings would have done with the accesses of a trace, in one pass. With a sample (the
/// number of replicates, and the number of pages of which each replicate has one) a server is one miniature per
/// replicate.
#[pyfunction]
#[pyo3(signature = (path, own_size, points, *, threads, observe, marks=Vec::new(), sample=(1, 1)))]
#[expect(clippy::too_many_arguments, reason = "by name")]
pub(crate) fn trace_servers<'p>(
    python: Python<'p>,
    path: PathBuf,
    own_size: u64,
    points: Vec<Point>,
    threads: usize,
    observe: Py<PyAny>,
    marks: Vec<u64>,
    sample: (u32, u32),
) -> PyResult<(Bound<'p, PyDict>, Vec<Bound<'p, PyDict>>)> {
    let sample = Sample::new(sample.0, sample.1).ok_or_else(|| {
        PyValueError::new_err("a sample is (replicates, a power of two up to 64)")
    })?;
    let mut servers = Vec::with_capacity(points.len() * sample.replicates());
    for point in &points {
        for _ in 0..sample.replicates() {
            servers.push(server(own_size, point, sample.scale())?.marked(&marks));
        }
    }
    let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
    let totals = observed(python, &observe, failed, |observe| {
        let totals = run_sampled(&mut open(&path)?, sample, &mut servers, threads, observe)?;
        servers.iter_mut().for_each(Server::finish);
        Ok(totals)
    })?;
    let found = servers
        .iter()
        .map(|server| as_dict(python, server))
        .collect::<PyResult<Vec<_>>>()?;
    Ok((totals_as_dict(python, totals)?, found))
}
