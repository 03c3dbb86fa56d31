//! The hot paths of Octavo, and what talks to the kernel.
//!
//! Nothing here knows about Python; `octavo-py` puts a thin face on it.

pub mod binary;
pub mod block_device;
pub mod io_engine;
pub mod simulate;
pub mod trace;
pub mod translation_unit;
