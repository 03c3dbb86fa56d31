//! The part of Octavo that talks to the kernel.
//!
//! Nothing here knows about Python; `octavo-py` puts a thin face on it.

pub mod block_device;
pub mod io_engine;
pub mod translation_unit;
