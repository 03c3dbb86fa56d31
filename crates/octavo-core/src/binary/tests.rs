//! Properties: any bytes, any part of a real file, and any file with changed bytes give a result or an error.

use std::io;

use proptest::prelude::*;

use super::{Error, Report, examine, scan};

/// Sections: none, .text of AArch64 with a helper and calls, .symtab, .strtab, .shstrtab.
fn program(machine: u16, code: &[u32]) -> Vec<u8> {
    let names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0.comment\0";
    let strings = b"\0$x\0$d\0__aarch64_cas4_acq_rel\0main\0";
    let code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut symbols = vec![0; 24];
    for (name, kind, value, size) in [
        (1_u32, 0_u8, 0_u64, 0_u64),
        (4, 0, 64, 0),
        (7, 2, 0, 48),
        (30, 2, 48, 16),
    ] {
        symbols.extend(name.to_le_bytes());
        symbols.extend([kind, 0, 1, 0]);
        symbols.extend(value.to_le_bytes());
        symbols.extend(size.to_le_bytes());
    }
    let comment = b"GCC: (Debian 12.2.0-14) 12.2.0\0";
    let parts: [(u32, u32, u64, u32, &[u8]); 5] = [
        (1, 1, 6, 0, &code),
        (7, 2, 0, 3, &symbols),
        (15, 3, 0, 0, strings),
        (23, 3, 0, 0, names),
        (33, 1, 0, 0, comment),
    ];
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let content: usize = parts.iter().map(|part| part.4.len()).sum();
    for half in [3_u16, machine] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for word in [0_u64, 0, 64 + content as u64] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 0, 64, 6, 4] {
        file.extend(half.to_le_bytes());
    }
    let mut headers = vec![0; 64];
    for (name, kind, flags, link, data) in parts {
        headers.extend(name.to_le_bytes());
        headers.extend(kind.to_le_bytes());
        for word in [flags, 0, file.len() as u64, data.len() as u64] {
            headers.extend(word.to_le_bytes());
        }
        headers.extend(link.to_le_bytes());
        headers.extend([0; 4]);
        headers.extend([0; 16]);
        file.extend(data);
    }
    file.extend(headers);
    file
}

const HELPER: [u32; 12] = [
    0xd503_245f,
    0x9000_0110,
    0x3941_7210,
    0x3400_0070,
    0x88e0_fc41,
    0xd65f_03c0,
    0x2a00_03f0,
    0x885f_fc40,
    0x6b10_001f,
    0x8811_fc41,
    0x35ff_ff91,
    0xd65f_03c0,
];

fn arm() -> Vec<u8> {
    // A call of the helper from 48 on, an exclusive, and the same as data behind $d.
    let rest = [
        0x97ff_fff4,
        0x885f_7c20,
        0xd65f_03c0,
        0xd503_201f,
        0x885f_7c20,
        0x88e0_fc41,
    ];
    program(183, &[&HELPER[..], &rest].concat())
}

fn report(content: &[u8]) -> Report {
    examine(content).expect("a whole file")
}

#[test]
fn data_behind_a_mapping_symbol_is_left_out() {
    let found = report(&arm());
    let counts: Vec<_> = found
        .counts
        .iter()
        .map(|one| (one.mnemonic.as_str(), one.count, one.in_helpers))
        .collect();
    assert_eq!(
        counts,
        [
            ("ldaxr", 1, 1),
            ("ldxr", 1, 0),
            ("stlxr", 1, 1),
            ("casal", 1, 1)
        ]
    );
    assert_eq!(found.helpers.len(), 1);
    assert_eq!(
        (found.helpers[0].name.as_str(), found.helpers[0].calls),
        ("__aarch64_cas4_acq_rel", 1)
    );
    assert_eq!(found.compilers, ["GCC: (Debian 12.2.0-14) 12.2.0"]);
}

/// A change of a file: one byte is changed, or the end is cut off.
fn changed(content: &[u8]) -> impl Strategy<Value = Vec<u8>> + use<> {
    let content = content.to_vec();
    let places = prop::collection::vec((0..content.len(), any::<u8>()), 0..12);
    (places, 0..=content.len()).prop_map(move |(places, length)| {
        let mut content = content.clone();
        for (place, byte) in places {
            content[place] = byte;
        }
        // Mostly uncut, because the reading of a cut file ends early.
        if length % 4 == 0 {
            content.truncate(length);
        }
        content
    })
}

fn package() -> Vec<u8> {
    let program = arm();
    let mut header = vec![0_u8; 512];
    header[..4].copy_from_slice(b"./pg");
    header[124..135].copy_from_slice(format!("{:011o}", program.len()).as_bytes());
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    let mut data = [header, program].concat();
    data.resize(data.len().next_multiple_of(512) + 1024, 0);
    let mut file = b"!<arch>\n".to_vec();
    for (name, content) in [("debian-binary", &b"2.0\n"[..]), ("data.tar", &data)] {
        file.extend(format!("{name:<48}{:<10}`\n", content.len()).bytes());
        file.extend(content);
    }
    file
}

#[test]
fn a_package_has_its_program() {
    let found = scan(&package()[..], &mut |_| true).expect("a whole package");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0.as_deref(), Some("./pg"));
    assert!(found[0].1.is_ok());
}

#[test]
fn what_cannot_be_unpacked_is_named() {
    let said = |kind: io::ErrorKind| Error::from(io::Error::new(kind, "no frame")).to_string();
    assert_eq!(
        said(io::ErrorKind::UnexpectedEof),
        "is a truncated package or archive"
    );
    assert_eq!(
        said(io::ErrorKind::InvalidData),
        "is a damaged package or archive: no frame"
    );
    assert_eq!(said(io::ErrorKind::Other), "no frame");
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_refused(content in prop::collection::vec(any::<u8>(), 0..4096)) {
        let _ = scan(&content[..], &mut |_| true);
    }

    #[test]
    fn any_code_is_counted(code in prop::collection::vec(any::<u32>(), 0..512), arm in any::<bool>()) {
        let machine = if arm { 183 } else { 62 };
        prop_assert!(examine(&program(machine, &code)).is_ok());
    }

    #[test]
    fn any_changed_program_is_answered_or_refused(content in changed(&arm())) {
        let _ = scan(&content[..], &mut |_| true);
    }

    #[test]
    fn any_changed_package_is_answered_or_refused(content in changed(&package())) {
        let _ = scan(&content[..], &mut |_| true);
    }
}
