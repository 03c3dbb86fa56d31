use octavo_core::translation_unit;
use pyo3::prelude::*;

/// For each marker, whether it can reach the object code of this preprocessed C translation unit.
#[pyfunction]
pub(crate) fn markers_that_reach(
    python: Python<'_>,
    text: &[u8],
    markers: Vec<Vec<u8>>,
) -> Vec<bool> {
    let markers: Vec<&[u8]> = markers.iter().map(Vec::as_slice).collect();
    python.detach(|| translation_unit::markers_that_reach(text, &markers))
}
