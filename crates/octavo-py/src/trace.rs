use std::{
    fs::File,
    io::{BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use octavo_core::trace::{self, Error, Fact, Import, Missing, Part, Reader, Relation, Wal, Writer};
use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
    types::{PyDict, PyList},
};

pub(crate) type Out = Writer<BufWriter<File>>;

pub(crate) fn open(path: &Path) -> Result<Reader<File>, Error> {
    Ok(Reader::new(File::open(path)?))
}

pub(crate) fn create(path: &Path, page_size: u64) -> Result<Out, Error> {
    Writer::new(BufWriter::new(File::create(path)?), page_size)
}

/// Writes the rest, and waits until it is on the disk.
pub(crate) fn finish(writer: Out) -> Result<(), Error> {
    let file = writer
        .finish()?
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?;
    match file.sync_all() {
        // A pipe or a terminal cannot be synced.
        Err(error) if error.raw_os_error() == Some(22) => Ok(()),
        other => Ok(other?),
    }
}

pub(crate) fn exception(error: Error) -> PyErr {
    match error {
        Error::Io(error) => match error.raw_os_error() {
            Some(number) => PyOSError::new_err((number, strerror(&error))),
            None => PyOSError::new_err(error.to_string()),
        },
        other => PyValueError::new_err(other.to_string()),
    }
}

/// The system's message, without the number that Rust appends.
fn strerror(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Runs `work` without the interpreter's lock. The function that it gets takes the lock, handles signals (Ctrl-C) and
/// calls `observe` with the accesses so far; an exception of either ends the work and is raised here.
pub(crate) fn observed<T: Send, E: Send>(
    python: Python<'_>,
    observe: &Py<PyAny>,
    to_exception: impl FnOnce(E) -> PyErr,
    work: impl FnOnce(&mut dyn FnMut(u64) -> bool) -> Result<T, E> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = python.detach(|| {
        work(&mut |accesses| {
            let told = Python::attach(|python| {
                python.check_signals()?;
                observe.call1(python, (accesses,)).map(drop)
            });
            raised = told.err();
            raised.is_none()
        })
    });
    match raised {
        Some(error) => Err(error),
        None => result.map_err(to_exception),
    }
}

pub(crate) fn missing_as_dict<'p>(
    python: Python<'p>,
    missing: Missing,
) -> PyResult<Bound<'p, PyDict>> {
    let found = PyDict::new(python);
    found.set_item("accesses", missing.accesses)?;
    found.set_item("bytes", missing.bytes)?;
    found.set_item("is_cut", missing.is_cut)?;
    Ok(found)
}

/// The summary of a trace, as a dict.
#[pyfunction]
pub(crate) fn trace_summary(
    python: Python<'_>,
    path: PathBuf,
    observe: Py<PyAny>,
) -> PyResult<Bound<'_, PyDict>> {
    let found = observed(python, &observe, exception, |observe| {
        trace::summarize(&mut open(&path)?, observe)
    })?;
    let summary = PyDict::new(python);
    summary.set_item("page_size", found.page_size)?;
    let [reads, extends, changes, full_page_images, pins] = found.accesses;
    for (name, count) in [
        ("reads", reads + pins),
        ("pins", pins),
        ("extends", extends),
        ("changes", changes),
        ("full_page_images", full_page_images),
    ] {
        summary.set_item(name, count)?;
    }
    summary.set_item("backends", found.backends)?;
    summary.set_item("times", found.times)?;
    let streams: Vec<_> = found
        .streams
        .iter()
        .map(|(stream, count)| {
            (
                stream.space,
                stream.database,
                stream.relation,
                stream.fork,
                *count,
            )
        })
        .collect();
    summary.set_item("streams", streams)?;
    let (properties, settings) = (PyDict::new(python), PyDict::new(python));
    let (relations, wal) = (PyList::empty(python), PyList::empty(python));
    for fact in found.facts {
        match fact {
            Fact::Property(name, value) => properties.set_item(name, value)?,
            Fact::Setting(name, value) => settings.set_item(name, value)?,
            Fact::Relation(relation) => relations.append(relation_as_dict(python, relation)?)?,
            Fact::Wal(stretch) => wal.append(wal_as_dict(python, stretch)?)?,
            _ => {}
        }
    }
    summary.set_item("properties", properties)?;
    summary.set_item("settings", settings)?;
    summary.set_item("relations", relations)?;
    summary.set_item("wal", wal)?;
    let events = PyDict::new(python);
    for (kind, counts) in found.events {
        if let Some(name) = kind.name() {
            events.set_item(name, counts)?;
        }
    }
    summary.set_item("events", events)?;
    summary.set_item("missing", missing_as_dict(python, found.missing)?)?;
    Ok(summary)
}

fn relation_as_dict(python: Python<'_>, relation: Relation) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(python);
    found.set_item("tablespace", relation.space)?;
    found.set_item("database", relation.database)?;
    found.set_item("relation", relation.relation)?;
    found.set_item("kind", char::from(relation.kind).to_string())?;
    found.set_item("blocks", relation.blocks)?;
    found.set_item("tuples", relation.tuples)?;
    found.set_item("tuple_bytes", relation.tuple_bytes)?;
    found.set_item("fillfactor", relation.fillfactor)?;
    found.set_item("name", relation.name)?;
    Ok(found)
}

fn wal_as_dict(python: Python<'_>, wal: Wal) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(python);
    found.set_item("start", wal.from)?;
    found.set_item("end", wal.until)?;
    found.set_item("kind", wal.kind)?;
    found.set_item("records", wal.records)?;
    found.set_item("full_page_images", wal.images)?;
    found.set_item("bytes", wal.bytes)?;
    found.set_item("full_page_image_bytes", wal.image_bytes)?;
    found.set_item("growth_bytes", wal.growth)?;
    Ok(found)
}

/// Writes a part of a trace. Returns its number of accesses, and what is missing in the source.
#[pyfunction]
#[pyo3(signature = (source, target, start, until, relation, observe))]
pub(crate) fn trace_cut(
    python: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    start: u64,
    until: u64,
    relation: Option<u32>,
    observe: Py<PyAny>,
) -> PyResult<(u64, Bound<'_, PyDict>)> {
    let part = Part {
        from: start,
        until,
        relation,
    };
    let (accesses, missing) = observed(python, &observe, exception, |observe| {
        let mut reader = open(&source)?;
        let (writer, missing) = trace::cut(
            &mut reader,
            |size| create(&target, size.into()),
            part,
            observe,
        )?;
        let accesses = writer.accesses();
        finish(writer)?;
        Ok((accesses, missing))
    })?;
    Ok((accesses, missing_as_dict(python, missing)?))
}

/// Converts a trace of another program. Returns the number of accesses.
#[pyfunction]
pub(crate) fn trace_import(
    python: Python<'_>,
    source: PathBuf,
    format: &str,
    target: PathBuf,
    page_size: u64,
    properties: Vec<(String, String)>,
) -> PyResult<u64> {
    let import = Import { page_size };
    python
        .detach(|| {
            let from = BufReader::with_capacity(1 << 18, File::open(&source)?);
            let mut into = create(&target, page_size)?;
            for (name, value) in properties {
                into.fact(&Fact::Property(name, value))?;
            }
            match format {
                "csv" => trace::read_csv(from, &mut into),
                "oracle-general" => trace::read_oracle_general(from, &mut into),
                "iolog" => trace::read_iolog(from, &mut into, import),
                "blktrace" => trace::read_blktrace(from, &mut into, import),
                _ => Err(Error::Malformed("unknown input format")),
            }?;
            let accesses = into.accesses();
            finish(into)?;
            Ok(accesses)
        })
        .map_err(exception)
}

/// Writes a trace in another program's format. Returns what is missing from the trace.
#[pyfunction]
pub(crate) fn trace_export<'p>(
    python: Python<'p>,
    source: PathBuf,
    format: &str,
    target: PathBuf,
) -> PyResult<Bound<'p, PyDict>> {
    let missing = python
        .detach(|| {
            let mut into = BufWriter::new(File::create(&target)?);
            let missing = match format {
                "csv" => trace::write_csv(&mut open(&source)?, &mut into),
                "oracle-general" => trace::write_oracle_general(|| open(&source), &mut into),
                "iolog" => trace::write_iolog(&mut open(&source)?, &mut into),
                _ => Err(Error::Malformed("unknown output format")),
            }?;
            into.flush()?;
            Ok(missing)
        })
        .map_err(exception)?;
    missing_as_dict(python, missing)
}
