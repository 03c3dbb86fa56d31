//! The contents of a program: architecture, atomic instructions, outlined atomics, level, compiler and flags.
//!
//! Everything here reads bytes of others: it returns a result or an error, in time that is linear in the file's size
//! and in memory that is bounded by [`MOST_BYTES`] and the file.

mod aarch64;
mod code;
mod elf;
mod error;
mod extensions;
mod outline;
mod packed;
mod producer;
mod report;
mod scan;
mod tar;
mod x86;

pub use error::Error;
pub use report::{Count, Helper, Level, Report, examine};
pub use scan::{Found, scan};

/// The limit of bytes that are read of one file.
pub const MOST_BYTES: u64 = 512 << 20;

#[cfg(test)]
mod tests;
