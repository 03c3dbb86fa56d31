use super::*;
use proptest::{option, prelude::*};

const FLUSHING: &str = " 259       2 nvme0n1p2 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27";

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

/// The later groups: none, discards, or discards and flushes, in the order in which kernels
/// introduced them.
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

    /// A real line with a part replaced or doubled.
    #[test]
    fn no_changed_text_of_the_kernels_makes_it_panic(
        (begin, end) in (0..FLUSHING.len(), 0..FLUSHING.len()),
        new in "[0-9a-z.\\-+ \\t\\n\\x00é]{0,24}",
    ) {
        let text = format!("{}{new}{}", &FLUSHING[..begin], &FLUSHING[end..]);
        let _ = parse(&text);
    }

    /// Text composed of parts of real lines gets further into the parser.
    #[test]
    fn no_nearly_right_text_makes_it_panic(text in "([0-9]{1,22}|sda|-|[ \\t\\n]){0,60}") {
        let _ = parse(&text);
    }
}
