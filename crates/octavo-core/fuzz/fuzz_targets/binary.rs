//! Any bytes for the readers of programs, packages and archives (`octavo binary`). The first byte selects the kind of
//! file that is made of them.
//!
//! Most mutated headers end the reading early. So most inputs are put into a file with correct headers, and only the
//! content of its parts comes from the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use octavo_core::binary::{Report, scan};

const AARCH64: u16 = 183;
const X86_64: u16 = 62;

/// The sections after the code: name, type, linked section, size of an entry.
const SECTIONS: [(&[u8], u32, u32, u64); 8] = [
    (b".symtab", 2, 3, 24),
    (b".strtab", 3, 0, 0),
    (b".comment", 1, 0, 0),
    (b".GCC.command.line", 1, 0, 0),
    (b".debug_info", 1, 0, 0),
    (b".debug_abbrev", 1, 0, 0),
    (b".debug_str", 1, 0, 0),
    (b".rela.text", 4, 2, 24),
];

/// A relocatable 64-bit file whose sections contain parts of the bytes; the first bytes are their sizes in words.
fn elf(machine: u16, flags: u64, bytes: &[u8]) -> Vec<u8> {
    let (lengths, mut rest) = bytes.split_at(bytes.len().min(SECTIONS.len()));
    let mut contents: Vec<&[u8]> = Vec::new();
    for &length in lengths {
        let (part, others) = rest.split_at(rest.len().min(usize::from(length) * 4));
        contents.push(part);
        rest = others;
    }
    contents.resize(SECTIONS.len(), &[]);
    contents.insert(0, rest);
    let mut names = b"\0.text\0".to_vec();
    let mut headers = vec![0; 64];
    let mut body: Vec<u8> = Vec::new();
    let all = std::iter::once((&b".text"[..], 1, 0, 0)).chain(SECTIONS);
    for (number, ((name, kind, link, entry), content)) in all.zip(&contents).enumerate() {
        let place = if number == 0 { 1 } else { names.len() };
        if number > 0 {
            names.extend(name);
            names.push(0);
        }
        let code = if number == 0 { 6 } else { flags & 0x800 };
        section(
            &mut headers,
            place,
            kind,
            code,
            64 + body.len(),
            content.len(),
            link,
            entry,
        );
        body.extend(*content);
    }
    let place = names.len();
    names.extend(b".shstrtab\0");
    section(
        &mut headers,
        place,
        3,
        0,
        64 + body.len(),
        names.len(),
        0,
        0,
    );
    body.extend(&names);
    let count = u16::try_from(headers.len() / 64).expect("ten sections");
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [1, machine] {
        file.extend(u16::to_le_bytes(half));
    }
    file.extend(1_u32.to_le_bytes());
    for word in [0, 0, 64 + body.len() as u64] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64, 0, 0, 64, count, count - 1] {
        file.extend(u16::to_le_bytes(half));
    }
    file.extend(body);
    file.extend(headers);
    file
}

#[allow(clippy::too_many_arguments)] // the fields of a section's header, in their order
fn section(
    headers: &mut Vec<u8>,
    name: usize,
    kind: u32,
    flags: u64,
    offset: usize,
    size: usize,
    link: u32,
    entry: u64,
) {
    headers.extend((name as u32).to_le_bytes());
    headers.extend(kind.to_le_bytes());
    for word in [flags, 0, offset as u64, size as u64] {
        headers.extend(word.to_le_bytes());
    }
    headers.extend(link.to_le_bytes());
    headers.extend(1_u32.to_le_bytes());
    headers.extend(1_u64.to_le_bytes());
    headers.extend(entry.to_le_bytes());
}

/// An archive (ar).
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = b"!<arch>\n".to_vec();
    for (name, content) in members {
        file.extend(
            format!(
                "{name:16}{:12}{:6}{:6}{:8}{:<10}`\n",
                0,
                0,
                0,
                644,
                content.len()
            )
            .bytes(),
        );
        file.extend(*content);
        if content.len() % 2 == 1 {
            file.push(b'\n');
        }
    }
    file
}

/// A tar archive with one regular file, without its end.
fn tar(content: &[u8], kind: u8) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..3].copy_from_slice(b"a/b");
    header[100..107].copy_from_slice(b"0000644");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[148..156].fill(b' ');
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut file = header.to_vec();
    file.extend(content);
    file.resize(file.len().div_ceil(512) * 512, 0);
    file
}

fn package(data: &str, content: &[u8]) -> Vec<u8> {
    archive(&[("debian-binary", b"2.0\n"), (data, content)])
}

/// Conditions that hold for every report, whatever it is made from.
fn check(report: &Report, bytes: usize) {
    assert!(report.code_bytes <= bytes as u64);
    for count in &report.counts {
        assert!(count.in_helpers <= count.count);
        assert!(count.count <= report.code_bytes);
    }
    let texts = report
        .compilers
        .iter()
        .chain(report.producers.iter().map(|(text, _)| text));
    for text in texts {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else {
        return;
    };
    let flags = u64::from(which & 0x80) << 4;
    let file = match which % 10 {
        0 => data.to_vec(),
        1 | 2 => elf(AARCH64, 0, data),
        3 | 4 => elf(X86_64, 0, data),
        5 => elf(AARCH64, flags, data), // compressed debug information
        6 => archive(&[("//", data), ("/0", &elf(AARCH64, 0, data))]),
        7 => {
            let mut members = tar(&elf(X86_64, 0, data), b'0');
            members.extend(tar(data, which));
            package("data.tar", &members)
        }
        8 => package(
            ["data.tar.gz", "data.tar.xz", "data.tar.zst"][usize::from(which / 10) % 3],
            data,
        ),
        _ => package("data.tar", data),
    };
    let mut read = 0;
    if let Ok(found) = scan(&file[..], &mut |bytes| {
        read = bytes;
        bytes < 64 << 20
    }) {
        for (_, one) in found {
            if let Ok(report) = one {
                check(
                    &report,
                    file.len().max(usize::try_from(read).unwrap_or(usize::MAX)),
                );
            }
        }
    }
});
