use std::{fs::File, path::PathBuf};

use octavo_core::binary::{self, Error, Report};
use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
    types::{PyDict, PyList},
};

use crate::trace::observed;

/// Reads an ELF file, or those of a package or archive: the name inside it and the report, or the reason for having
/// none.
#[pyfunction]
pub(crate) fn binary_scan(
    python: Python<'_>,
    path: PathBuf,
    observe: Py<PyAny>,
) -> PyResult<Bound<'_, PyList>> {
    let found = observed(python, &observe, exception, |observe| {
        binary::scan(File::open(&path)?, observe)
    })?;
    let answers = PyList::empty(python);
    for (name, result) in found {
        let (report, problem) = match result {
            Ok(report) => (Some(as_dict(python, report)?), None),
            Err(error) => (None, Some(error.to_string())),
        };
        answers.append((name, report, problem))?;
    }
    Ok(answers)
}

fn exception(error: Error) -> PyErr {
    let number = match &error {
        Error::Io(error) => error.raw_os_error(),
        _ => None,
    };
    match number {
        Some(number) => PyOSError::new_err((number, error.to_string())),
        None => PyValueError::new_err(error.to_string()),
    }
}

fn as_dict(python: Python<'_>, report: Report) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(python);
    found.set_item("machine", report.machine)?;
    found.set_item("bits", report.bits)?;
    found.set_item("is_little_endian", report.is_little_endian)?;
    found.set_item("kind", report.kind)?;
    found.set_item("is_stripped", report.is_stripped)?;
    found.set_item("is_debug_file", report.is_debug_file)?;
    found.set_item("code_bytes", report.code_bytes)?;
    let counts: Vec<_> = report
        .counts
        .into_iter()
        .map(|one| (one.mnemonic, one.group, one.count, one.in_helpers))
        .collect();
    found.set_item("counts", counts)?;
    let helpers: Vec<_> = report
        .helpers
        .into_iter()
        .map(|one| (one.name, one.calls))
        .collect();
    found.set_item("helpers", helpers)?;
    let levels: Vec<_> = report
        .levels
        .into_iter()
        .map(|one| (one.name, one.instructions, one.stretches, one.functions))
        .collect();
    found.set_item("levels", levels)?;
    found.set_item("stretches", report.stretches)?;
    found.set_item("detects_cpu", report.detects_cpu)?;
    found.set_item("compilers", report.compilers)?;
    found.set_item("producers", report.producers)?;
    found.set_item("notes", report.notes)?;
    Ok(found)
}
