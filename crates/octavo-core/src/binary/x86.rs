//! The atomic instructions of x86-64, and the instruction-set level of the code.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (LOCK, XCHG) and volume 3A, 10.1.2
//! (automatic locking of XCHG with memory); x86-64 psABI, 3.1.1 "Processor Architecture" (levels). Instructions are
//! decoded by iced-x86.

use std::{collections::BTreeMap, sync::OnceLock};

use iced_x86::{
    Code as Opcode, CpuidFeature, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind,
};

use super::{
    code::{Code, Functions},
    report::{Count, Level, NAMES, Report},
};

const STRETCH: usize = 4096;
const LEVELS: [&str; 4] = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"];

/// Counts the atomics, and the instructions above the first level.
pub(super) fn count(parts: &[Code<'_>], functions: &Functions<'_>, report: &mut Report) {
    let mut counts: BTreeMap<(bool, Mnemonic), u64> = BTreeMap::new();
    let mut levels: BTreeMap<&'static str, Level> = BTreeMap::new();
    let mut last_stretch: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
    let mut instruction = Instruction::default();
    for part in parts {
        report.stretches += part.data.len().div_ceil(STRETCH) as u64;
        for (begin, end) in runs(part) {
            let bytes = &part.data[begin..end];
            let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
            while decoder.can_decode() {
                let at = decoder.position();
                decoder.decode_out(&mut instruction);
                if instruction.is_invalid() {
                    // Bytes that are no instruction are skipped one by one, as a disassembler does.
                    let _ = decoder.set_position(at + 1);
                    continue;
                }
                if let Some(key) = atomic(&instruction) {
                    *counts.entry(key).or_insert(0) += 1;
                }
                report.detects_cpu |=
                    matches!(instruction.mnemonic(), Mnemonic::Cpuid | Mnemonic::Xgetbv);
                let Some(name) = beyond(&instruction) else {
                    continue;
                };
                let level = levels.entry(name).or_insert_with(|| Level {
                    name: name.to_owned(),
                    instructions: 0,
                    stretches: 0,
                    functions: Vec::new(),
                });
                level.instructions += 1;
                let stretch = (part.section, (begin + at) / STRETCH);
                if last_stretch.insert(name, stretch) != Some(stretch) {
                    level.stretches += 1;
                }
                if level.functions.len() < NAMES {
                    let address = part.address.wrapping_add((begin + at) as u64);
                    if let Some(function) = functions.at(part.section, address) {
                        if level.functions.last() != Some(&function) {
                            level.functions.push(function);
                        }
                    }
                }
            }
        }
    }
    report.counts = counts
        .into_iter()
        .map(|((is_locked, mnemonic), count)| Count {
            mnemonic: format!(
                "{}{}",
                if is_locked { "lock " } else { "" },
                name_of(mnemonic)
            ),
            group: "atomics",
            count,
            in_helpers: 0,
        })
        .collect();
    report.levels = levels.into_values().collect();
}

fn name_of(mnemonic: Mnemonic) -> String {
    format!("{mnemonic:?}").to_lowercase()
}

/// The code from symbol to symbol, so that data between functions does not misalign the decoding of the next one.
fn runs(part: &Code<'_>) -> Vec<(usize, usize)> {
    let end = part.data.len();
    let mut found = Vec::with_capacity(part.starts.len() + 1);
    let mut begin = 0;
    for &start in &part.starts {
        let start = usize::try_from(start).map_or(end, |start| start.min(end));
        if start > begin {
            found.push((begin, start));
            begin = start;
        }
    }
    if begin < end {
        found.push((begin, end));
    }
    found
}

/// Whether it has a lock prefix, and its mnemonic; None if it is not atomic.
fn atomic(instruction: &Instruction) -> Option<(bool, Mnemonic)> {
    let mnemonic = instruction.mnemonic();
    if instruction.has_lock_prefix() {
        return Some((true, mnemonic));
    }
    let of_memory =
        instruction.op0_kind() == OpKind::Memory || instruction.op1_kind() == OpKind::Memory;
    (mnemonic == Mnemonic::Xchg && of_memory).then_some((false, mnemonic))
}

/// The level above the first, or the extension, to which an instruction belongs.
fn beyond(instruction: &Instruction) -> Option<&'static str> {
    static TABLE: OnceLock<Vec<Option<&'static str>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| Opcode::values().map(level_of).collect());
    table.get(instruction.code() as usize).copied().flatten()
}

fn level_of(opcode: Opcode) -> Option<&'static str> {
    // Encoded as `rep bsf`, which older CPUs execute as bsf: compilers use it for every CPU.
    if opcode.mnemonic() == Mnemonic::Tzcnt {
        return None;
    }
    // An opcode may belong to several features: the highest one counts.
    let places = opcode
        .cpuid_features()
        .iter()
        .map(|&feature| place(feature));
    let place = places.max().unwrap_or(Place::Level(0));
    match place {
        Place::Level(0) => None,
        Place::Level(level) => Some(LEVELS[level]),
        Place::Extension(name) => Some(name),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Level(usize),
    Extension(&'static str),
}

/// The level of the psABI to which a feature belongs, or the extension if it belongs to none but matters to programs.
#[allow(clippy::enum_glob_use)]
fn place(feature: CpuidFeature) -> Place {
    use CpuidFeature::*;
    match feature {
        SSE3 | SSSE3 | SSE4_1 | SSE4_2 | POPCNT | CMPXCHG16B => Place::Level(1),
        AVX | AVX2 | BMI1 | BMI2 | F16C | FMA | LZCNT | MOVBE => Place::Level(2),
        AVX512F | AVX512BW | AVX512CD | AVX512DQ | AVX512VL => Place::Level(3),
        AES => Place::Extension("AES"),
        PCLMULQDQ => Place::Extension("PCLMULQDQ"),
        SHA => Place::Extension("SHA"),
        VAES => Place::Extension("VAES"),
        VPCLMULQDQ => Place::Extension("VPCLMULQDQ"),
        GFNI => Place::Extension("GFNI"),
        ADX => Place::Extension("ADX"),
        RDRAND => Place::Extension("RDRAND"),
        RDSEED => Place::Extension("RDSEED"),
        RTM => Place::Extension("RTM"),
        AVX512_VPOPCNTDQ => Place::Extension("AVX512_VPOPCNTDQ"),
        AVX512_VBMI => Place::Extension("AVX512_VBMI"),
        AVX512_VBMI2 => Place::Extension("AVX512_VBMI2"),
        AVX512_VNNI => Place::Extension("AVX512_VNNI"),
        AVX512_BITALG => Place::Extension("AVX512_BITALG"),
        AVX512_IFMA => Place::Extension("AVX512_IFMA"),
        _ => Place::Level(0),
    }
}
