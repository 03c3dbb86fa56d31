//! The extension module `octavo._core`. Its Python-side documentation is `src/octavo/_core.pyi`.

use pyo3::prelude::*;

mod binary;
mod block_device;
mod io_engine;
mod server;
mod simulate;
mod trace;
mod trace_writer;
mod translation_unit;

/// The performance-critical code of Octavo, and its interfaces to the kernel.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::binary::binary_scan;
    #[pymodule_export]
    use crate::block_device::{DeviceStatistics, device_statistics};
    #[pymodule_export]
    use crate::io_engine::{IoOutcome, io_is_own, io_make, io_run};
    #[pymodule_export]
    use crate::server::trace_servers;
    #[pymodule_export]
    use crate::simulate::{trace_buffers, trace_curves, trace_policy};
    #[pymodule_export]
    use crate::trace::{trace_cut, trace_export, trace_import, trace_summary};
    #[pymodule_export]
    use crate::trace_writer::TraceWriter;
    #[pymodule_export]
    use crate::translation_unit::markers_that_reach;
}
