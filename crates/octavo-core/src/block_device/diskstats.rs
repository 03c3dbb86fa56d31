//! The text of `/proc/diskstats`, as the kernel's Documentation/admin-guide/iostats.rst and
//! Documentation/ABI/testing/procfs-diskstats describe it: one device per line, three columns
//! that name it, then eleven counters, four more since Linux 4.18 (discards) and two more since
//! 5.5 (flushes). Columns that a later kernel may append are ignored.

use std::{
    iter::Peekable,
    str::{FromStr, SplitAsciiWhitespace},
};

use super::DeviceNumber;

/// The kernel counts in sectors of 512 bytes whatever the device's own sector size is.
pub const SECTOR_BYTES: u64 = 512;

/// The counters of one block device since boot or since the device was attached.
///
/// All but [`in_flight`](Self::in_flight) only grow. The kernel writes the millisecond
/// counters as 32-bit numbers, which wrap after 49.7 days of I/O time; on a 32-bit machine the
/// others are no wider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatistics {
    /// The device.
    pub device: DeviceNumber,
    /// Its name below /dev, such as `nvme0n1p2` or `dm-0`.
    pub name: String,
    /// Completed read requests.
    pub reads: u64,
    /// Read requests that were merged into a neighbouring one and are not in `reads`.
    pub reads_merged: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time that all reads took together, queueing included.
    pub read_milliseconds: u64,
    /// Completed write requests.
    pub writes: u64,
    /// Write requests that were merged into a neighbouring one and are not in `writes`.
    pub writes_merged: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time that all writes took together, queueing included.
    pub write_milliseconds: u64,
    /// Requests begun and not completed yet: a gauge, not a counter.
    pub in_flight: u64,
    /// Time during which at least one request was in flight, to the precision of a jiffy.
    pub io_milliseconds: u64,
    /// Time that all requests took together: grows by `in_flight` milliseconds every millisecond.
    pub weighted_io_milliseconds: u64,
    /// Absent before Linux 4.18.
    pub discards: Option<DiscardStatistics>,
    /// Absent before Linux 5.5; always zero for partitions, and for devices without a request queue.
    pub flushes: Option<FlushStatistics>,
}

/// Requests that told the device which blocks are no longer in use (TRIM, UNMAP, DEALLOCATE).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscardStatistics {
    /// Completed discard requests.
    pub discards: u64,
    /// Discard requests that were merged into a neighbouring one and are not in `discards`.
    pub discards_merged: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// Time that all discards took together.
    pub discard_milliseconds: u64,
}

/// Requests that flushed the device's volatile write cache, as fsync(2) does in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushStatistics {
    /// Completed flush requests. The kernel merges concurrent ones: fewer than fsync(2) calls.
    pub flushes: u64,
    /// Time that all flushes took together.
    pub flush_milliseconds: u64,
}

/// A line of `/proc/diskstats` that is not as documented.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct MalformedLine {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: MalformedReason,
}

/// What is wrong with a line of `/proc/diskstats`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedReason {
    /// The line ends before this field.
    #[error("the field `{0}` is missing")]
    Missing(&'static str),
    /// The field is not a number in its range.
    #[error("the field `{field}` is {text:?}, which is not a number of its range")]
    NotANumber {
        /// The field's name in [`DeviceStatistics`].
        field: &'static str,
        /// The field's text.
        text: String,
    },
}

/// Reads the whole of `/proc/diskstats`, the devices in its order.
///
/// # Errors
///
/// The first line that is not as documented.
pub fn parse(text: &str) -> Result<Vec<DeviceStatistics>, MalformedLine> {
    text.lines()
        .zip(1..)
        .map(|(content, line)| parse_line(content).map_err(|reason| MalformedLine { line, reason }))
        .collect()
}

fn parse_line(line: &str) -> Result<DeviceStatistics, MalformedReason> {
    let mut fields = Fields::of(line);
    // The fields are read in the order in which they are listed here.
    Ok(DeviceStatistics {
        device: DeviceNumber {
            major: fields.number("major")?,
            minor: fields.number("minor")?,
        },
        name: fields.text("name")?.to_owned(),
        reads: fields.number("reads")?,
        reads_merged: fields.number("reads_merged")?,
        read_bytes: fields.bytes("read_bytes")?,
        read_milliseconds: fields.number("read_milliseconds")?,
        writes: fields.number("writes")?,
        writes_merged: fields.number("writes_merged")?,
        written_bytes: fields.bytes("written_bytes")?,
        write_milliseconds: fields.number("write_milliseconds")?,
        in_flight: fields.number("in_flight")?,
        io_milliseconds: fields.number("io_milliseconds")?,
        weighted_io_milliseconds: fields.number("weighted_io_milliseconds")?,
        discards: fields.group(|fields| {
            Ok(DiscardStatistics {
                discards: fields.number("discards")?,
                discards_merged: fields.number("discards_merged")?,
                discarded_bytes: fields.bytes("discarded_bytes")?,
                discard_milliseconds: fields.number("discard_milliseconds")?,
            })
        })?,
        flushes: fields.group(|fields| {
            Ok(FlushStatistics {
                flushes: fields.number("flushes")?,
                flush_milliseconds: fields.number("flush_milliseconds")?,
            })
        })?,
    })
}

/// The columns of a line that have not been read.
struct Fields<'a>(Peekable<SplitAsciiWhitespace<'a>>);

impl<'a> Fields<'a> {
    fn of(line: &'a str) -> Self {
        Self(line.split_ascii_whitespace().peekable())
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, MalformedReason> {
        self.0.next().ok_or(MalformedReason::Missing(field))
    }

    fn number<N: FromStr>(&mut self, field: &'static str) -> Result<N, MalformedReason> {
        let text = self.text(field)?;
        text.parse().map_err(|_| not_a_number(field, text))
    }

    fn bytes(&mut self, field: &'static str) -> Result<u64, MalformedReason> {
        let text = self.text(field)?;
        text.parse()
            .ok()
            .and_then(|sectors: u64| sectors.checked_mul(SECTOR_BYTES))
            .ok_or_else(|| not_a_number(field, text))
    }

    /// A group of fields that older kernels do not write: either all of them are present or none.
    fn group<G>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<G, MalformedReason>,
    ) -> Result<Option<G>, MalformedReason> {
        if self.0.peek().is_none() {
            return Ok(None);
        }
        read(self).map(Some)
    }
}

fn not_a_number(field: &'static str, text: &str) -> MalformedReason {
    MalformedReason::NotANumber {
        field,
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
