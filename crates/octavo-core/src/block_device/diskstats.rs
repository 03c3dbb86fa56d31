//! The text of `/proc/diskstats`, as the kernel's Documentation/admin-guide/iostats.rst and
//! Documentation/ABI/testing/procfs-diskstats describe it: one device a line, three columns
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
    /// Absent before Linux 5.5; always zero for partitions.
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

/// Requests that emptied the device's volatile write cache, which is what fsync(2) comes down to.
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
    /// The field holds something else than a number in its range.
    #[error("the field `{field}` is {text:?}, which is not a number of its range")]
    NotANumber {
        /// The field's name in [`DeviceStatistics`].
        field: &'static str,
        /// What stands there.
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
    // The fields are taken in the order in which they are written here.
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

/// The columns of a line that are still to be read.
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

    /// A group of fields that older kernels do not write: there as a whole, or not at all.
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
mod tests {
    use super::*;
    use proptest::{option, prelude::*};

    const FLUSHING: &str =
        " 259       2 nvme0n1p2 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27";

    #[test]
    fn every_field_has_its_place() {
        let expected = DeviceStatistics {
            device: DeviceNumber {
                major: 259,
                minor: 2,
            },
            name: "nvme0n1p2".to_owned(),
            reads: 11,
            reads_merged: 12,
            read_bytes: 13 * 512,
            read_milliseconds: 14,
            writes: 15,
            writes_merged: 16,
            written_bytes: 17 * 512,
            write_milliseconds: 18,
            in_flight: 19,
            io_milliseconds: 20,
            weighted_io_milliseconds: 21,
            discards: Some(DiscardStatistics {
                discards: 22,
                discards_merged: 23,
                discarded_bytes: 24 * 512,
                discard_milliseconds: 25,
            }),
            flushes: Some(FlushStatistics {
                flushes: 26,
                flush_milliseconds: 27,
            }),
        };
        assert_eq!(parse(FLUSHING), Ok(vec![expected]));
    }

    #[test]
    fn columns_of_later_kernels_are_ignored() {
        assert_eq!(parse(&format!("{FLUSHING} 28 later")), parse(FLUSHING));
    }

    #[test]
    fn kernels_before_4_18_count_no_discards() {
        let devices = parse("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n").unwrap();
        assert_eq!(devices[0].discards, None);
        assert_eq!(devices[0].flushes, None);
    }

    #[test]
    fn kernels_before_5_5_count_no_flushes() {
        let devices = parse("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15").unwrap();
        assert!(devices[0].discards.is_some());
        assert_eq!(devices[0].flushes, None);
    }

    #[test]
    fn the_malformed_line_and_field_are_named() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            message(&format!("{FLUSHING}\n8 0 sda 1 2 3\n")),
            "line 2: the field `read_milliseconds` is missing"
        );
        assert_eq!(
            message("8 0 sda 1 -2"),
            "line 1: the field `reads_merged` is \"-2\", which is not a number of its range"
        );
        assert_eq!(
            message("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13"),
            "line 1: the field `discarded_bytes` is missing"
        );
        assert_eq!(message("\n"), "line 1: the field `major` is missing");
    }

    #[test]
    fn sectors_beyond_64_bits_of_bytes_are_refused() {
        let sectors = u64::MAX / SECTOR_BYTES + 1;
        let error = parse(&format!("8 0 sda 1 2 {sectors}")).unwrap_err();
        assert_eq!(
            error.reason,
            MalformedReason::NotANumber {
                field: "read_bytes",
                text: sectors.to_string()
            }
        );
    }

    /// The line that the kernel writes for `statistics`.
    fn line_of(statistics: &DeviceStatistics) -> String {
        let DeviceStatistics {
            device,
            name,
            reads,
            reads_merged,
            read_bytes,
            read_milliseconds,
            writes,
            writes_merged,
            written_bytes,
            write_milliseconds,
            in_flight,
            io_milliseconds,
            weighted_io_milliseconds,
            discards,
            flushes,
        } = statistics;
        let mut columns = vec![
            name.clone(),
            reads.to_string(),
            reads_merged.to_string(),
            (read_bytes / SECTOR_BYTES).to_string(),
            read_milliseconds.to_string(),
            writes.to_string(),
            writes_merged.to_string(),
            (written_bytes / SECTOR_BYTES).to_string(),
            write_milliseconds.to_string(),
            in_flight.to_string(),
            io_milliseconds.to_string(),
            weighted_io_milliseconds.to_string(),
        ];
        if let Some(group) = discards {
            columns.extend([
                group.discards.to_string(),
                group.discards_merged.to_string(),
                (group.discarded_bytes / SECTOR_BYTES).to_string(),
                group.discard_milliseconds.to_string(),
            ]);
        }
        if let Some(group) = flushes {
            columns.extend([
                group.flushes.to_string(),
                group.flush_milliseconds.to_string(),
            ]);
        }
        format!(
            "{:4} {:7} {}",
            device.major,
            device.minor,
            columns.join(" ")
        )
    }

    fn any_bytes() -> impl Strategy<Value = u64> {
        (0..=u64::MAX / SECTOR_BYTES).prop_map(|sectors| sectors * SECTOR_BYTES)
    }

    prop_compose! {
        fn any_discards()(
            discards: u64,
            discards_merged: u64,
            discarded_bytes in any_bytes(),
            discard_milliseconds: u64,
        ) -> DiscardStatistics {
            DiscardStatistics { discards, discards_merged, discarded_bytes, discard_milliseconds }
        }
    }

    prop_compose! {
        fn any_flushes()(flushes: u64, flush_milliseconds: u64) -> FlushStatistics {
            FlushStatistics { flushes, flush_milliseconds }
        }
    }

    /// The later groups: none, discards, or discards and flushes, as kernels came to write them.
    fn any_groups() -> impl Strategy<Value = (Option<DiscardStatistics>, Option<FlushStatistics>)> {
        option::of((any_discards(), option::of(any_flushes()))).prop_map(|groups| match groups {
            Some((discards, flushes)) => (Some(discards), flushes),
            None => (None, None),
        })
    }

    prop_compose! {
        fn any_statistics()(
            (major, minor) in any::<(u32, u32)>(),
            name in "[a-z][a-z0-9!-]{0,31}",
            [reads, reads_merged, read_milliseconds] in any::<[u64; 3]>(),
            [writes, writes_merged, write_milliseconds] in any::<[u64; 3]>(),
            [in_flight, io_milliseconds, weighted_io_milliseconds] in any::<[u64; 3]>(),
            [read_bytes, written_bytes] in [any_bytes(), any_bytes()],
            (discards, flushes) in any_groups(),
        ) -> DeviceStatistics {
            DeviceStatistics {
                device: DeviceNumber { major, minor },
                name,
                reads,
                reads_merged,
                read_bytes,
                read_milliseconds,
                writes,
                writes_merged,
                written_bytes,
                write_milliseconds,
                in_flight,
                io_milliseconds,
                weighted_io_milliseconds,
                discards,
                flushes,
            }
        }
    }

    proptest! {
        #[test]
        fn what_the_kernel_writes_is_read_back(
            devices in prop::collection::vec(any_statistics(), 0..8),
        ) {
            let text: String = devices.iter().map(|device| line_of(device) + "\n").collect();
            prop_assert_eq!(parse(&text), Ok(devices));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = parse(&text);
        }

        /// A real line with a part of it replaced, or doubled.
        #[test]
        fn no_changed_text_of_the_kernels_makes_it_panic(
            (begin, end) in (0..FLUSHING.len(), 0..FLUSHING.len()),
            new in "[0-9a-z.\\-+ \\t\\n\\x00é]{0,24}",
        ) {
            let text = format!("{}{new}{}", &FLUSHING[..begin], &FLUSHING[end..]);
            let _ = parse(&text);
        }

        /// Text made of what real lines are made of gets further into the parser.
        #[test]
        fn no_nearly_right_text_makes_it_panic(text in "([0-9]{1,22}|sda|-|[ \\t\\n]){0,60}") {
            let _ = parse(&text);
        }
    }
}
