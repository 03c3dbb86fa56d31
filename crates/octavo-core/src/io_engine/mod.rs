//! The performance of storage at each request size and pattern: blocks of files are visited in some order
//! ([`Pattern`]), are joined into requests in some way ([`Joining`]), and reach the kernel by some call ([`Method`]).
//!
//! The timed code is a loop on each thread that allocates nothing, locks nothing and shares nothing. The clock is read
//! once between two requests: a request's latency is the time from one reading to the next, so it includes the few
//! nanoseconds in which the next position is computed.

mod block_list;
mod buffer;
mod clock;
mod engine;
mod error;
mod file_set;
mod job;
mod make;
mod open_file;
mod page_cache;
mod pattern;
mod permutation;
mod policy;
mod runner;
mod stamp;
mod tally;
#[cfg(test)]
mod tests;

pub use block_list::parse as parse_block_list;
pub use error::{Error, Kind};
pub use file_set::{FileSet, Place};
pub use job::{Cache, Job, Method, Readahead};
pub use make::{is_own, make};
pub use open_file::{Access, OpenFile};
pub use pattern::{Pass, Passes, Pattern, Run, Share, Walk};
pub use permutation::Permutation;
pub use policy::{Joining, Request, Requests};
pub use runner::{DeviceWork, Outcome, Progress, run};
pub use stamp::SECTOR;
pub use tally::Tally;
