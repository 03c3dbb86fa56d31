//! Simulation of caches with the accesses of a trace: LRU of every size in one pass, PostgreSQL's buffer manager and
//! the textbook policies at one size, for pages of the trace's size and of others.

mod buffers;
mod curve;
mod feed;
mod latest;
mod pages;
mod parts;
mod policies;
mod ranks;
mod sampled;
mod server;
mod stack;
mod study;
mod visits;

pub use buffers::{BufferCounts, BufferManager, Outcome, Rings};
pub use curve::Curve;
pub use feed::{Batch, Consumer, Error, Totals, run, run_sampled};
pub use pages::LEVELS;
pub use parts::Sample;
pub use policies::{Cache, Clock, Fifo, Lru};
pub use sampled::{Filter, SampledDistances};
pub use server::{
    BackgroundWriter, Blocks, Checkpoints, DeviceCounts, FlushSettings, Kernel, KernelCounts,
    KernelSettings, Lean, LogSettings, OpenFile, PageCache, RequestCounts, Seen, SelfSimilar,
    Server, Snapshot, Window, WriterSettings,
};
pub use stack::StackDistances;
pub use study::{Pages, Study};
