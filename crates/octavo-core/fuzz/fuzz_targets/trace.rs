//! Any bytes for every reader of traces. The first byte selects the reader of the rest.
//!
//! `cargo +nightly fuzz run trace` in crates/octavo-core, with cargo-fuzz; docs/trace.md describes how to do without
//! it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use octavo_core::trace::{
    self, BackendRecords, Error, Import, Part, ProbeLines, Reader, Writer, cut, summarize,
    write_csv,
};

/// So large that a request of a gigabyte is only a thousand pages.
const IMPORT: Import = Import { page_size: 1 << 20 };

/// CRC-32C, bit by bit, without which the readers reject a mutated payload.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg())
        })
    })
}

/// A complete frame of docs/trace-format.md, whatever its payload is.
fn frame(kind: u8, accesses: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xa7, 0x4f, 0x63, 0x74, 1, kind, 0, 0];
    bytes.extend(8192_u32.to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(u32::from(accesses).to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(checksum(payload).to_le_bytes());
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Everything that is done with a trace in one pass.
fn read(bytes: &[u8]) {
    let Ok(found) = summarize(&mut Reader::new(bytes), &mut |_| true) else {
        return;
    };
    write_csv(&mut Reader::new(bytes), std::io::sink()).expect("what was summarized is written");
    let part = Part {
        from: 10,
        until: 1 << 40,
        relation: None,
    };
    let create = |size: u32| Writer::new(Vec::new(), size.into());
    let (writer, _) = cut(&mut Reader::new(bytes), create, part, &mut |_| true)
        .expect("what was summarized is cut");
    let written = writer.finish().expect("memory is written");
    let again =
        summarize(&mut Reader::new(&written[..]), &mut |_| true).expect("a part is a trace");
    assert!(
        again
            .accesses
            .iter()
            .zip(found.accesses)
            .all(|(&part, whole)| part <= whole)
    );
    assert_eq!(again.missing, trace::Missing::default());
}

/// An import must be a complete trace.
fn import(read_all: impl FnOnce(&mut Writer<Vec<u8>>) -> Result<(), Error>) {
    let mut writer = Writer::new(Vec::new(), IMPORT.page_size).expect("a page size");
    if read_all(&mut writer).is_ok() {
        let accesses = writer.accesses();
        let bytes = writer.finish().expect("memory is written");
        let found = summarize(&mut Reader::new(&bytes[..]), &mut |_| true).expect("it is a trace");
        assert_eq!(found.accesses.iter().sum::<u64>(), accesses);
        assert_eq!(found.missing, trace::Missing::default());
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else {
        return;
    };
    match which % 9 {
        0 => read(data),
        1 | 2 if data.len() > 2 => {
            let accesses = u16::from_le_bytes([data[0], data[1]]);
            read(&frame(
                which % 9,
                if which % 9 == 2 { accesses } else { 0 },
                &data[2..],
            ));
        }
        3 => import(|writer| trace::read_csv(data, writer)),
        4 => import(|writer| trace::read_oracle_general(data, writer)),
        5 => import(|writer| trace::read_iolog(data, writer, IMPORT)),
        6 => import(|writer| trace::read_blktrace(data, writer, IMPORT)),
        7 => {
            let (mut records, mut lines) =
                (BackendRecords::default(), ProbeLines::knowing_scans(64));
            let taken = records.feed(1, 7, data, &mut lines);
            assert!(taken <= data.len());
            records.take_events(u64::MAX, 0);
            lines.take(0, 0);
        }
        8 => {
            let mut lines = ProbeLines::default();
            lines.feed(data);
            lines.take(0, 5);
        }
        _ => {}
    }
});
