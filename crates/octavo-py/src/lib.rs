//! The extension module `octavo._core`. Its Python-side documentation is `src/octavo/_core.pyi`.

use pyo3::prelude::*;

mod block_device;
mod io_engine;
mod translation_unit;

/// The part of Octavo that talks to the kernel.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::block_device::{DeviceStatistics, device_statistics};
    #[pymodule_export]
    use crate::io_engine::{IoOutcome, io_is_own, io_make, io_run};
    #[pymodule_export]
    use crate::translation_unit::markers_that_reach;
}
