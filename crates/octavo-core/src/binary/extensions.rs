//! Extensions of AArch64 beyond Armv8.0 that compilers use by default, by bit pattern.
//!
//! Source: Arm Architecture Reference Manual for A-profile (DDI 0487), C4.1. Hints (PAC, BTI), which older CPUs execute
//! as no-operations, are not included.

use super::report::Level;

/// Name, mask and value of an instruction word.
const PATTERNS: [(&str, u32, u32); 10] = [
    ("crc32", 0x7fe0_e000, 0x1ac0_4000),
    ("aes", 0xffff_cc00, 0x4e28_4800),
    ("pmull", 0xbfe0_fc00, 0x0ee0_e000),
    ("sha2", 0xffe0_8c00, 0x5e00_0000),
    ("dotprod", 0x9fe0_fc00, 0x0e80_9400),
    ("fp16", 0xffe0_0c00, 0x1ee0_0800),
    ("fp16", 0x9f60_c400, 0x0e40_0400),
    ("rcpc", 0x3fff_fc00, 0x38bf_c000),
    ("rcpc2", 0x3f20_0c00, 0x1900_0000),
    ("sve", 0x1e00_0000, 0x0400_0000),
];

/// Adds the instructions of each extension.
pub(super) fn count(words: &[u32], levels: &mut Vec<Level>) {
    let mut counts = [0_u64; PATTERNS.len()];
    for &word in words {
        for (count, &(_, mask, value)) in counts.iter_mut().zip(&PATTERNS) {
            *count += u64::from(word & mask == value);
        }
    }
    for (&(name, ..), &instructions) in PATTERNS.iter().zip(&counts) {
        if instructions == 0 {
            continue;
        }
        match levels.iter_mut().find(|level| level.name == name) {
            Some(level) => level.instructions += instructions,
            None => levels.push(Level {
                name: name.to_owned(),
                instructions,
                stretches: 0,
                functions: Vec::new(),
            }),
        }
    }
}
