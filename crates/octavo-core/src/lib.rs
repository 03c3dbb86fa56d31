//! The performance-critical code of Octavo, and its interfaces to the kernel.
//!
//! Nothing here depends on Python; `octavo-py` is a thin binding of it.

pub mod binary;
pub mod block_device;
pub mod io_engine;
pub mod simulate;
pub mod trace;
pub mod translation_unit;
