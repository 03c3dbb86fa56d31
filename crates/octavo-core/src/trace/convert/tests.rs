//! Round trips between the formats, and refused input.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*};

use super::{
    super::{Kind, Stream, columns::tests::accesses},
    iolog::MOST_NAMES,
    *,
};

const IMPORT: Import = Import { page_size: 4096 };

fn imported(
    read: impl FnOnce(&mut Writer<Vec<u8>>) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(Vec::new(), 4096)?;
    read(&mut writer)?;
    writer.finish()
}

#[test]
fn few_lines_are_not_any_number_of_accesses_or_files() {
    let line = |number: u64| format!("a read 0 {}\n", number * 4096);
    let with = |lines: &str| {
        let text = format!("fio version 2 iolog\n{lines}");
        imported(|writer| read_iolog(text.as_bytes(), writer, IMPORT))
    };
    let (fits, more) = (line(MOST_ACCESSES / 2), line(MOST_ACCESSES / 2 + 1));
    assert!(with(&format!("{fits}{fits}")).is_ok());
    assert!(matches!(
        with(&format!("{fits}{more}")),
        Err(Error::Line { line: 3, .. })
    ));
    let names = |count: usize| {
        let lines: Vec<String> = (0..count)
            .map(|name| format!("{name} read 0 1\n"))
            .collect();
        with(&lines.concat())
    };
    assert!(names(MOST_NAMES).is_ok());
    assert!(names(MOST_NAMES + 1).is_err());
}

#[test]
fn lines_and_records_are_so_many_accesses_and_no_more() {
    let most = usize::try_from(MOST_ACCESSES).unwrap();
    let csv = |lines: usize| {
        let text = format!("block\n{}", "1\n".repeat(lines));
        imported(|writer| read_csv(text.as_bytes(), writer))
    };
    let records = |count: usize| {
        let bytes = [0_u8; 24].repeat(count);
        imported(|writer| read_oracle_general(&bytes[..], writer))
    };
    assert!(csv(most).is_ok() && records(most).is_ok());
    for (found, line) in [(csv(most + 1), most + 2), (records(most + 1), most + 1)] {
        let error = found.unwrap_err().to_string();
        assert_eq!(
            error,
            format!("line {line}: more than 4,294,967,296 accesses; convert a part of the file")
        );
    }
}

fn all(bytes: &[u8]) -> Vec<Access> {
    let mut found = Vec::new();
    let missing = each_access(&mut Reader::new(bytes), |access| {
        found.push(access);
        Ok(())
    });
    assert_eq!(missing.unwrap(), Missing::default());
    found
}

fn pages(found: &[Access]) -> Vec<(u32, u64, Kind)> {
    found
        .iter()
        .map(|access| (access.stream.relation, access.block, access.kind))
        .collect()
}

#[test]
fn requests_of_fio_are_pages() {
    let text = b"fio version 3 iolog\n0 /data/a add\n0 /data/a open\n7 /data/a read 4096 8192\n8 /data/b write 0 512\n9 /data/a close\n";
    let found = all(&imported(|writer| read_iolog(&text[..], writer, IMPORT)).unwrap());
    assert_eq!(
        pages(&found),
        [(0, 1, Kind::Read), (0, 2, Kind::Read), (1, 0, Kind::Extend)]
    );
    assert_eq!(found[2].time, 8);
    let again =
        imported(|writer| read_iolog(&b"fio version 2 iolog\n/a read 1 zz\n"[..], writer, IMPORT));
    assert!(matches!(again, Err(Error::Line { line: 2, .. })));
}

#[test]
fn requests_of_blkparse_are_pages() {
    let text = b"  8,0    3    1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3    2     0.000001829   697  Q  WS 223488 + 16 [kjournald]
  8,0    3    3     0.5           700  Q   R 0 + 1 [postgres]
  8,0    3    4     0.6           700  Q FWS [postgres]
CPU0 (8,0):
 Reads Queued:           1,        1KiB\n";
    let found = all(&imported(|writer| read_blktrace(&text[..], writer, IMPORT)).unwrap());
    let expected = [
        (27_936, Kind::Extend, 697),
        (27_937, Kind::Extend, 697),
        (0, Kind::Read, 700),
    ];
    assert_eq!(
        found
            .iter()
            .map(|access| (access.block, access.kind, access.backend))
            .collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn columns_of_csv_are_found_by_name() {
    let text = b"Block, kind\n7,read\n\n9,extend\n";
    let found = all(&imported(|writer| read_csv(&text[..], writer)).unwrap());
    assert_eq!(pages(&found), [(0, 7, Kind::Read), (0, 9, Kind::Extend)]);
    for (text, line) in [
        (&b"page\n1\n"[..], 1),
        (b"block\nx\n", 2),
        (b"block,kind\n1,read\n2,eaten\n", 3),
    ] {
        match imported(|writer| read_csv(text, writer)) {
            Err(Error::Line { line: found, .. }) => assert_eq!(found, line),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_cut_record_is_refused() {
    assert!(imported(|writer| read_oracle_general(&[0; 48][..], writer)).is_ok());
    assert!(imported(|writer| read_oracle_general(&[0; 47][..], writer)).is_err());
}

fn traced(accesses: &[Access]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 8192).unwrap();
    accesses
        .iter()
        .for_each(|access| writer.push(access).unwrap());
    writer.finish().unwrap()
}

proptest! {
    #[test]
    fn csv_comes_back(accesses in accesses(200)) {
        let mut text = Vec::new();
        write_csv(&mut Reader::new(&traced(&accesses)[..]), &mut text).unwrap();
        prop_assert_eq!(all(&imported(|writer| read_csv(&text[..], writer)).unwrap()), accesses);
    }

    #[test]
    fn oracle_general_has_the_same_pages_and_the_next_of_each(blocks in vec((0_u32..3, 0_u64..40), 0..200)) {
        let accesses: Vec<_> = blocks
            .iter()
            .map(|&(relation, block)| Access { stream: Stream { relation, ..Stream::default() }, block, ..Access::default() })
            .collect();
        let trace = traced(&accesses);
        let mut records = Vec::new();
        write_oracle_general(|| Ok(Reader::new(&trace[..])), &mut records).unwrap();
        prop_assert_eq!(records.len(), accesses.len() * 24);
        for (place, record) in records.chunks(24).enumerate() {
            let next = i64::from_le_bytes(record[16..].try_into().unwrap());
            let expected = blocks[place + 1..].iter().position(|other| *other == blocks[place]);
            prop_assert_eq!(next, expected.map_or(-1, |more| (place + 1 + more) as i64));
        }
        let again = all(&imported(|writer| read_oracle_general(&records[..], writer)).unwrap());
        let mut numbers = HashMap::new();
        for (access, page) in again.iter().zip(&blocks) {
            prop_assert_eq!(*numbers.entry(*page).or_insert(access.block), access.block);
        }
    }

    #[test]
    fn iologs_come_back(blocks in vec((0_u32..3, 0_u64..1 << 40, any::<bool>()), 0..100)) {
        let accesses: Vec<_> = blocks
            .iter()
            .map(|&(relation, block, write)| Access {
                stream: Stream { relation, ..Stream::default() },
                block,
                kind: if write { Kind::Extend } else { Kind::Read },
                ..Access::default()
            })
            .collect();
        let mut text = Vec::new();
        write_iolog(&mut Reader::new(&traced(&accesses)[..]), &mut text).unwrap();
        let again = all(&imported(|writer| read_iolog(&text[..], writer, Import { page_size: 8192 })).unwrap());
        prop_assert_eq!(
            again.iter().map(|access| (access.block, access.kind)).collect::<Vec<_>>(),
            accesses.iter().map(|access| (access.block, access.kind)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn any_text_is_imported_or_refused(text in "(fio version [23] iolog\n|block,kind\n)?([0-9a-z,+ \n]|8,0 1 1 0\\.5 7 Q R 9 \\+ 8\n|/a read 1 9999999\n){0,60}") {
        let _ = imported(|writer| read_csv(text.as_bytes(), writer));
        let _ = imported(|writer| read_iolog(text.as_bytes(), writer, IMPORT));
        let _ = imported(|writer| read_blktrace(text.as_bytes(), writer, IMPORT));
    }

    #[test]
    fn any_import_is_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        let _ = imported(|writer| read_csv(&bytes[..], writer));
        let _ = imported(|writer| read_iolog(&[b"fio version 3 iolog\n", &bytes[..]].concat()[..], writer, IMPORT));
        let _ = imported(|writer| read_blktrace(&bytes[..], writer, IMPORT));
        let _ = imported(|writer| read_oracle_general(&bytes[..], writer));
    }
}
