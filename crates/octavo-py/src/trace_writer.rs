use std::path::PathBuf;

use octavo_core::trace::{
    Access, BackendRecords, Event, EventKind, Fact, Kind, ProbeLines, Relation, Strategy, Stream,
    Wal,
};
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
};

use crate::trace::{Out, create, exception, finish};

/// An access as a tuple: time, backend, tablespace, database, relation, fork, block, kind and strategy.
type AccessTuple = (u64, u32, u32, u32, u32, u8, u64, u8, u8);

/// A trace in the course of being written.
#[pyclass(module = "octavo._core")]
pub(crate) struct TraceWriter {
    into: Option<Out>,
    probes: ProbeLines,
    records: BackendRecords,
}

#[pymethods]
impl TraceWriter {
    #[new]
    fn new(path: PathBuf, page_size: u64) -> PyResult<Self> {
        create(&path, page_size)
            .map(|writer| Self {
                into: Some(writer),
                probes: ProbeLines::default(),
                records: BackendRecords::default(),
            })
            .map_err(exception)
    }

    fn describe(&mut self, name: String, value: String) -> PyResult<()> {
        self.fact(&Fact::Property(name, value))
    }

    fn setting(&mut self, name: String, value: String) -> PyResult<()> {
        self.fact(&Fact::Setting(name, value))
    }

    #[pyo3(signature = (tablespace, database, relation, *, kind, blocks, tuples, tuple_bytes, fillfactor, name))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of a relation, by name"
    )]
    fn relation(
        &mut self,
        tablespace: u32,
        database: u32,
        relation: u32,
        kind: char,
        blocks: u64,
        tuples: u64,
        tuple_bytes: u32,
        fillfactor: u32,
        name: Option<String>,
    ) -> PyResult<()> {
        let kind = u8::try_from(kind).unwrap_or(b'?');
        self.fact(&Fact::Relation(Relation {
            space: tablespace,
            database,
            relation,
            kind,
            blocks,
            tuples,
            tuple_bytes,
            fillfactor,
            name,
        }))
    }

    fn event(&mut self, time: u64, kind: &str, count: u64) -> PyResult<()> {
        let kind = EventKind::named(kind)
            .ok_or_else(|| PyValueError::new_err(format!("unknown event: {kind:?}")))?;
        self.fact(&Fact::Event(Event { time, kind, count }))
    }

    #[pyo3(signature = (start, end, kind, *, records, full_page_images, bytes, full_page_image_bytes, growth_bytes))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of a stretch of WAL, by name"
    )]
    fn wal(
        &mut self,
        start: u64,
        end: u64,
        kind: String,
        records: u64,
        full_page_images: u64,
        bytes: u64,
        full_page_image_bytes: u64,
        growth_bytes: u64,
    ) -> PyResult<()> {
        self.fact(&Fact::Wal(Wal {
            from: start,
            until: end,
            kind,
            records,
            images: full_page_images,
            bytes,
            image_bytes: full_page_image_bytes,
            growth: growth_bytes,
        }))
    }

    fn push(&mut self, accesses: Vec<AccessTuple>) -> PyResult<()> {
        let writer = self.writer()?;
        for (time, backend, space, database, relation, fork, block, kind, strategy) in accesses {
            let stream = Stream {
                space,
                database,
                relation,
                fork,
            };
            let (kind, strategy) = (Kind::of(kind), Strategy::of(strategy << 4));
            writer
                .push(&Access {
                    time,
                    backend,
                    stream,
                    block,
                    kind,
                    strategy,
                })
                .map_err(exception)?;
        }
        Ok(())
    }

    /// Adds bpftrace's output. Writes the accesses except those of the last `keep` nanoseconds; returns the number of
    /// lost accesses, and the lines that are no accesses.
    fn push_probes(
        &mut self,
        printed: &[u8],
        began: u64,
        keep: u64,
    ) -> PyResult<(u64, Vec<String>)> {
        self.probes.feed(printed);
        let accesses = self.probes.take(keep, began);
        let until = match accesses.last() {
            _ if keep == 0 => u64::MAX,
            Some(last) => last.time,
            None => 0,
        };
        let mut events = self
            .records
            .take_events(until, began)
            .into_iter()
            .peekable();
        for access in accesses {
            while let Some(event) = events.next_if(|event| event.time <= access.time) {
                self.event_in_its_place(event)?;
            }
            self.writer()?.push(&access).map_err(exception)?;
        }
        events.try_for_each(|event| self.event_in_its_place(event))?;
        Ok((self.probes.take_lost(), self.probes.take_notes()))
    }

    /// Scans of relations up to this many blocks are guessed from consecutive blocks; for others the server reports the
    /// strategy.
    fn guess_scans_up_to(&mut self, blocks: u64) {
        self.probes = ProbeLines::knowing_scans(blocks);
    }

    /// Adds the next records of a backend's file, of a tracing build. `push_probes` writes them. Returns the number of
    /// bytes read, and the number of invalid records.
    fn push_records(&mut self, file: u64, backend: u32, records: &[u8]) -> (usize, u64) {
        let taken = self.records.feed(file, backend, records, &mut self.probes);
        (taken, self.records.take_strays())
    }

    /// Ends a file: no more records of it follow.
    fn forget_records(&mut self, file: u64) {
        self.records.forget(file);
    }

    #[getter]
    fn accesses(&mut self) -> PyResult<u64> {
        Ok(self.writer()?.accesses())
    }

    fn flush(&mut self) -> PyResult<()> {
        self.writer()?.flush().map_err(exception)
    }

    fn finish(&mut self) -> PyResult<()> {
        self.into.take().map_or(Ok(()), finish).map_err(exception)
    }
}

impl TraceWriter {
    fn writer(&mut self) -> PyResult<&mut Out> {
        self.into
            .as_mut()
            .ok_or_else(|| PyRuntimeError::new_err("the trace is finished"))
    }

    fn event_in_its_place(&mut self, event: Event) -> PyResult<()> {
        let writer = self.writer()?;
        writer.flush().map_err(exception)?;
        writer.fact(&Fact::Event(event)).map_err(exception)
    }

    fn fact(&mut self, fact: &Fact) -> PyResult<()> {
        self.writer()?.fact(fact).map_err(exception)
    }
}
