use std::{fmt::Write as _, path::PathBuf};

use octavo_core::block_device::{self, Error};
use pyo3::{
    exceptions::{PyFileNotFoundError, PyLookupError, PyOSError, PyValueError},
    prelude::*,
};

/// The counters of one block device since boot or since the device was attached.
#[pyclass(frozen, get_all, module = "octavo._core")]
pub(crate) struct DeviceStatistics {
    device: String,
    major: u32,
    minor: u32,
    reads: u64,
    reads_merged: u64,
    read_bytes: u64,
    read_milliseconds: u64,
    writes: u64,
    writes_merged: u64,
    written_bytes: u64,
    write_milliseconds: u64,
    in_flight: u64,
    io_milliseconds: u64,
    weighted_io_milliseconds: u64,
    discards: Option<u64>,
    discards_merged: Option<u64>,
    discarded_bytes: Option<u64>,
    discard_milliseconds: Option<u64>,
    flushes: Option<u64>,
    flush_milliseconds: Option<u64>,
}

impl From<block_device::DeviceStatistics> for DeviceStatistics {
    fn from(core: block_device::DeviceStatistics) -> Self {
        let (discards, flushes) = (core.discards.as_ref(), core.flushes.as_ref());
        Self {
            device: core.name,
            major: core.device.major,
            minor: core.device.minor,
            reads: core.reads,
            reads_merged: core.reads_merged,
            read_bytes: core.read_bytes,
            read_milliseconds: core.read_milliseconds,
            writes: core.writes,
            writes_merged: core.writes_merged,
            written_bytes: core.written_bytes,
            write_milliseconds: core.write_milliseconds,
            in_flight: core.in_flight,
            io_milliseconds: core.io_milliseconds,
            weighted_io_milliseconds: core.weighted_io_milliseconds,
            discards: discards.map(|group| group.discards),
            discards_merged: discards.map(|group| group.discards_merged),
            discarded_bytes: discards.map(|group| group.discarded_bytes),
            discard_milliseconds: discards.map(|group| group.discard_milliseconds),
            flushes: flushes.map(|group| group.flushes),
            flush_milliseconds: flushes.map(|group| group.flush_milliseconds),
        }
    }
}

#[pymethods]
impl DeviceStatistics {
    fn __repr__(&self) -> String {
        let mut repr = format!("DeviceStatistics(device={:?}", self.device);
        for (name, value) in self.numbers() {
            let _ = match value {
                Some(value) => write!(repr, ", {name}={value}"),
                None => write!(repr, ", {name}=None"),
            };
        }
        repr.push(')');
        repr
    }
}

impl DeviceStatistics {
    fn numbers(&self) -> [(&'static str, Option<u64>); 19] {
        [
            ("major", Some(self.major.into())),
            ("minor", Some(self.minor.into())),
            ("reads", Some(self.reads)),
            ("reads_merged", Some(self.reads_merged)),
            ("read_bytes", Some(self.read_bytes)),
            ("read_milliseconds", Some(self.read_milliseconds)),
            ("writes", Some(self.writes)),
            ("writes_merged", Some(self.writes_merged)),
            ("written_bytes", Some(self.written_bytes)),
            ("write_milliseconds", Some(self.write_milliseconds)),
            ("in_flight", Some(self.in_flight)),
            ("io_milliseconds", Some(self.io_milliseconds)),
            (
                "weighted_io_milliseconds",
                Some(self.weighted_io_milliseconds),
            ),
            ("discards", self.discards),
            ("discards_merged", self.discards_merged),
            ("discarded_bytes", self.discarded_bytes),
            ("discard_milliseconds", self.discard_milliseconds),
            ("flushes", self.flushes),
            ("flush_milliseconds", self.flush_milliseconds),
        ]
    }
}

/// The counters of the block device that contains the filesystem of `path`.
#[pyfunction]
pub(crate) fn device_statistics(path: PathBuf) -> PyResult<DeviceStatistics> {
    block_device::statistics_of(&path)
        .map(DeviceStatistics::from)
        .map_err(|error| exception(&error))
}

fn exception(error: &Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::NoSuchPath { .. } => PyFileNotFoundError::new_err(message),
        Error::NoBlockDevice { .. } | Error::NotListed { .. } => PyLookupError::new_err(message),
        Error::Malformed(_) => PyValueError::new_err(message),
        // The others are errors of the operating system; Error is non-exhaustive.
        _ => PyOSError::new_err(message),
    }
}
