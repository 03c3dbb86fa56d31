//! Recorded page accesses of a server: the format of `.octrace` files (docs/trace-format.md).
//!
//! A file is a sequence of frames. Each has its own checksum and can be read without the others, so that from a
//! truncated or damaged file all complete frames can be read, and the number of missing accesses is known.

mod access;
mod backend_records;
mod bytes;
mod checksum;
mod columns;
mod convert;
mod entropy;
mod error;
mod fact;
mod frame;
mod part;
mod probes;
mod reader;
mod summary;
#[cfg(test)]
mod test_trace;
mod writer;

pub use access::{Access, Accesses, Kind, MOST_IN_A_BLOCK, Strategy, Stream};
pub use backend_records::BackendRecords;
pub use convert::{
    Import, read_blktrace, read_csv, read_iolog, read_oracle_general, write_csv, write_iolog,
    write_oracle_general,
};
pub use error::Error;
pub use fact::{Event, EventKind, Fact, Relation, Wal};
pub use frame::VERSION;
pub use part::{Part, cut};
pub use probes::ProbeLines;
pub use reader::{Item, Missing, Reader};
pub use summary::{Summary, summarize};
pub use writer::Writer;
