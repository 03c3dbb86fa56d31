//! The report on a file, composed of its parts.

use std::collections::BTreeMap;

use super::{
    Error,
    aarch64::{self, Group, Mnemonic},
    code::{self, Functions},
    elf::Elf,
    extensions, outline, producer, x86,
};

/// The number of occurrences of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// As a disassembler writes it; on x86-64 in Intel's syntax, with its `lock`.
    pub mnemonic: String,
    /// Its kind: `load and store exclusives`, `large-system extensions`, `ordered loads and stores`, `atomics`.
    pub group: &'static str,
    /// All occurrences.
    pub count: u64,
    /// Occurrences in helpers of outlined atomics.
    pub in_helpers: u64,
}

/// A helper of outlined atomics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper {
    /// Its name in the compiler's runtime library.
    pub name: String,
    /// Branches to it.
    pub calls: u64,
}

/// Instructions of an x86-64 level (psABI: x86-64-v2 …) or of an extension that belongs to no level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// `x86-64-v2`, or the extension: `AES`, `crc32`.
    pub name: String,
    /// The number of its instructions.
    pub instructions: u64,
    /// The number of 4 kB stretches of the code that contain them; 0 if that is not counted.
    pub stretches: u64,
    /// The first functions that contain them, by name.
    pub functions: Vec<String>,
}

/// The contents of an ELF file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// ELF's number of the architecture (`e_machine`).
    pub machine: u16,
    /// 32 or 64.
    pub bits: u8,
    /// The byte order of data.
    pub is_little_endian: bool,
    /// `executable`, `position-independent executable`, `shared library`, `object`, `core`, or `other`.
    pub kind: &'static str,
    /// Whether it has no symbol table except the dynamic one.
    pub is_stripped: bool,
    /// Whether it is a separate file of debug information: its sections of instructions are empty.
    pub is_debug_file: bool,
    /// Bytes of instructions.
    pub code_bytes: u64,
    /// Atomic instructions by mnemonic.
    pub counts: Vec<Count>,
    /// Helpers of outlined atomics.
    pub helpers: Vec<Helper>,
    /// Levels above the first, and extensions.
    pub levels: Vec<Level>,
    /// The number of 4 kB stretches of all code.
    pub stretches: u64,
    /// Whether it detects the CPU's features.
    pub detects_cpu: bool,
    /// The compilers that `.comment` names.
    pub compilers: Vec<String>,
    /// Compiler and flags of each unit (`DW_AT_producer`, `.GCC.command.line`), and the number of units with the same
    /// ones.
    pub producers: Vec<(String, u64)>,
    /// Parts that could not be read.
    pub notes: Vec<String>,
}

/// The limit of names that are kept for a level.
pub(super) const NAMES: usize = 8;

/// Reads an ELF file.
///
/// # Errors
///
/// If it is not an ELF file, is truncated, or contradicts itself.
pub fn examine(content: &[u8]) -> Result<Report, Error> {
    if content.is_empty() {
        return Err(Error::Empty);
    }
    if !Elf::is_elf(content) {
        return Err(Error::Unknown);
    }
    let elf = Elf::parse(content)?;
    let is_object = elf.kind == object::elf::ET_REL.0;
    let code = elf.code(content.len())?;
    let mut report = Report {
        machine: elf.machine,
        bits: if elf.is_64 { 64 } else { 32 },
        is_little_endian: elf.endian == object::Endianness::Little,
        kind: kind(&elf),
        is_stripped: elf.symbols.all.is_empty(),
        is_debug_file: code.is_empty()
            && elf.sections.iter().any(|one| one.is_code() && one.size > 0),
        code_bytes: code.iter().map(|(_, one)| one.data.len() as u64).sum(),
        ..Report::default()
    };
    let parts = code::parts(&elf, &code, is_object);
    let little = report.is_little_endian;
    match elf.machine {
        machine if machine == object::elf::EM_AARCH64.0 => of_aarch64(&elf, &parts, &mut report),
        machine if machine == object::elf::EM_X86_64.0 && little => {
            x86::count(&parts, &Functions::of(&elf), &mut report);
        }
        _ => report
            .notes
            .push("instructions of this architecture are not counted".to_owned()),
    }
    report.detects_cpu |= code::chooses_at_run_time(&elf);
    producer::read(&elf, &mut report);
    Ok(report)
}

fn kind(elf: &Elf<'_>) -> &'static str {
    match object::elf::FileType(elf.kind) {
        object::elf::ET_EXEC => "executable",
        object::elf::ET_DYN if elf.has_interpreter => "position-independent executable",
        object::elf::ET_DYN => "shared library",
        object::elf::ET_REL => "object",
        object::elf::ET_CORE => "core",
        _ => "other",
    }
}

fn of_aarch64(elf: &Elf<'_>, parts: &[code::Code<'_>], report: &mut Report) {
    let runs: Vec<(u64, Vec<u32>)> = parts
        .iter()
        .flat_map(|part| {
            part.instructions().into_iter().map(|(begin, end)| {
                let words = part.data[begin..end].chunks_exact(4);
                // Instructions are little-endian on big-endian AArch64 too.
                let words =
                    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                (part.address.wrapping_add(begin as u64), words.collect())
            })
        })
        .collect();
    let mut helpers = BTreeMap::new();
    for (start, words) in &runs {
        helpers.extend(
            outline::helpers(*start, words)
                .into_iter()
                .map(|one| (one.begin, one)),
        );
    }
    for symbol in &elf.symbols.all {
        let name = elf.symbols.name(symbol);
        if symbol.section != 0 && outline::is_helper_name(name) {
            let (begin, end) = (symbol.value, symbol.value.saturating_add(symbol.size));
            let made = || outline::Found {
                name: String::new(),
                begin,
                end,
                calls: 0,
            };
            helpers.entry(begin).or_insert_with(made).name = printable(name);
        }
    }
    let mut counts: BTreeMap<(Group, Mnemonic), (u64, u64)> = BTreeMap::new();
    for (start, words) in &runs {
        for (place, &word) in words.iter().enumerate() {
            if let Some((mnemonic, group)) = aarch64::decode(word) {
                let address = start.wrapping_add(4 * place as u64);
                let inside = helpers
                    .range(..=address)
                    .next_back()
                    .is_some_and(|(_, one)| address < one.end);
                let (all, in_helpers) = counts.entry((group, mnemonic)).or_default();
                *all += 1;
                *in_helpers += u64::from(inside);
            }
        }
        outline::count_calls(*start, words, &mut helpers);
        extensions::count(words, &mut report.levels);
    }
    report.counts = counts
        .into_iter()
        .map(|((group, mnemonic), (count, in_helpers))| Count {
            mnemonic: mnemonic.to_string(),
            group: group.name(),
            count,
            in_helpers,
        })
        .collect();
    let mut by_name: BTreeMap<String, u64> = outline::unlinked_calls(elf);
    for helper in helpers.into_values() {
        *by_name.entry(helper.name).or_insert(0) += helper.calls;
    }
    report.helpers = by_name
        .into_iter()
        .map(|(name, calls)| Helper { name, calls })
        .collect();
}

/// Text from a file, without characters that a terminal would interpret.
pub(super) fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars()
        .map(|one| if one.is_control() { '\u{fffd}' } else { one })
        .collect()
}
