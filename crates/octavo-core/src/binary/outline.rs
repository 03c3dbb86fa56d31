//! Outlined atomics: helpers that determine once whether the CPU has LSE, and the calls of them.
//!
//! Source: libgcc/config/aarch64/lse.S of GCC (since 10.1) and compiler-rt's lse.S. Each helper begins with
//! `adrp x16; ldrb w16, [x16, …]; cbz w16, …`, which reads `__aarch64_have_lse_atomics`, then has the LSE instruction
//! and `ret`, then the loop of exclusives. So they can be found in stripped programs too.

use std::collections::BTreeMap;

use super::{
    aarch64::{Group, Mnemonic, decode},
    elf::Elf,
};

const RETURN: u32 = 0xd65f_03c0;
const LANDING_PAD: u32 = 0xd503_245f; // bti c
/// The longest helper has 16 instructions; with a landing pad and padding to 16 bytes it has no more than this.
const HELPER_WORDS: usize = 24;

/// A helper of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    /// Its addresses, end excluded.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) calls: u64,
}

/// The helpers among instructions that begin at an address, recognised by their code.
pub(super) fn helpers(start: u64, words: &[u32]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(seen) = words
        .get(at..)
        .and_then(|rest| rest.windows(5).position(is_entry))
    {
        let entry = at + seen;
        let begin = if entry > 0 && words[entry - 1] == LANDING_PAD {
            entry - 1
        } else {
            entry
        };
        let limit = words.len().min(begin + HELPER_WORDS);
        // The second return ends the loop of exclusives, which follows the first.
        let returns: Vec<_> = (entry..limit)
            .filter(|&place| words[place] == RETURN)
            .take(2)
            .collect();
        let (&[_, last], Some(name)) = (&returns[..], helper_name(&words[entry..limit])) else {
            at = entry + 1;
            continue;
        };
        let address = |place: usize| start.wrapping_add(4 * place as u64);
        found.push(Found {
            name,
            begin: address(begin),
            end: address(last + 1),
            calls: 0,
        });
        at = last + 1;
    }
    found
}

/// `adrp x16; ldrb w16, [x16, …]; cbz w16, …; LSE; ret`.
fn is_entry(words: &[u32]) -> bool {
    let &[page, load, branch, operation, end] = words else {
        return false;
    };
    page & 0x9f00_001f == 0x9000_0010
        && load & 0xffc0_03ff == 0x3940_0210
        && branch & 0xff00_001f == 0x3400_0010
        && end == RETURN
        && decode(operation).is_some_and(|(_, group)| group == Group::Lse)
}

/// The name of a helper in the runtime library: `__aarch64_cas4_acq_rel`.
fn helper_name(words: &[u32]) -> Option<String> {
    let word = *words.get(3)?;
    let (mnemonic, _) = decode(word)?;
    Some(format!(
        "__aarch64_{}{}_{}",
        operation(mnemonic),
        bytes(mnemonic, word),
        order(mnemonic)
    ))
}

fn operation(mnemonic: Mnemonic) -> &'static str {
    match mnemonic.operation() {
        "casp" => "cas",
        // `ldadd` whose result is not used.
        "stadd" => "ldadd",
        "stclr" => "ldclr",
        "steor" => "ldeor",
        "stset" => "ldset",
        other => other,
    }
}

fn bytes(mnemonic: Mnemonic, word: u32) -> u32 {
    if mnemonic.operation() == "casp" {
        16
    } else {
        1 << (word >> 30)
    }
}

fn order(mnemonic: Mnemonic) -> &'static str {
    match mnemonic.order() {
        "a" => "acq",
        "l" => "rel",
        "al" => "acq_rel",
        _ => "relax",
    }
}

/// Counts branches to helpers: `bl` is a call, `b` a tail call, which returns to the caller's caller.
pub(super) fn count_calls(start: u64, words: &[u32], helpers: &mut BTreeMap<u64, Found>) {
    let (Some(&first), Some(&last)) = (helpers.keys().next(), helpers.keys().next_back()) else {
        return;
    };
    for (place, &word) in words.iter().enumerate() {
        if word & 0x7c00_0000 != 0x1400_0000 {
            continue;
        }
        // The distance is a signed number of words in 26 bits.
        let distance = i64::from((word << 6) as i32 >> 4);
        let from = start.wrapping_add(4 * place as u64);
        let target = from.wrapping_add_signed(distance);
        if (first..=last).contains(&target) {
            if let Some(helper) = helpers.get_mut(&target) {
                helper.calls += 1;
            }
        }
    }
}

/// Calls that a linker has not yet resolved: relocations of branches in an object file.
pub(super) fn unlinked_calls(elf: &Elf<'_>) -> BTreeMap<String, u64> {
    const CALL: u32 = 283; // R_AARCH64_CALL26
    const JUMP: u32 = 282; // R_AARCH64_JUMP26
    let mut found = BTreeMap::new();
    for section in &elf.sections {
        let is_code = elf
            .sections
            .get(section.info as usize)
            .is_some_and(super::elf::Section::is_code);
        if section.kind != object::elf::SHT_RELA.0 || !is_code || !elf.is_64 {
            continue;
        }
        for entry in section.data.chunks_exact(24) {
            let info: [u8; 8] = entry[8..16].try_into().unwrap_or_default();
            let info = match elf.endian {
                object::Endianness::Little => u64::from_le_bytes(info),
                object::Endianness::Big => u64::from_be_bytes(info),
            };
            let (symbol, kind) = ((info >> 32) as usize, info as u32);
            if kind != CALL && kind != JUMP {
                continue;
            }
            let Some(symbol) = elf.symbols.all.get(symbol) else {
                continue;
            };
            let name = elf.symbols.name(symbol);
            if is_helper_name(name) {
                *found.entry(super::report::printable(name)).or_insert(0) += 1;
            }
        }
    }
    found
}

/// Whether it is a name like `__aarch64_cas4_acq_rel`, not that of the variable that the helpers read.
pub(super) fn is_helper_name(name: &[u8]) -> bool {
    name.strip_prefix(b"__aarch64_").is_some_and(|rest| {
        [&b"cas"[..], b"swp", b"ldadd", b"ldclr", b"ldeor", b"ldset"]
            .iter()
            .any(|one| rest.starts_with(one))
            && rest.iter().any(u8::is_ascii_digit)
    })
}
