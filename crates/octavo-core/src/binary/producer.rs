//! Compiler and flags: `.comment`, DWARF's producers, `.GCC.command.line`.
//!
//! Source: DWARF 5, 3.1.1 (`DW_AT_producer`) and 7.5; GCC's -grecord-gcc-switches (its default) and
//! -frecord-gcc-switches. Of each unit only the first entry is read.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
};

use gimli::{AttributeValue, EndianSlice, RunTimeEndian};
use object::Endianness;

use super::{
    elf::{Elf, Section},
    report::{Report, printable},
};

/// The longest compiler name or line of flags that is kept, in bytes.
const MOST_TEXT: usize = 4096;
/// The limit of different ones that are kept.
const MOST_KINDS: usize = 64;
/// The limit of units that are read: LTO makes few, a browser has 30,000.
const MOST_UNITS: usize = 50_000;
/// The longest table of abbreviations that is read for a unit, in bytes; those of real units have a few thousand.
const MOST_ABBREVIATIONS: usize = 32 * 1024;
/// The limit for the unpacked size of all sections of debug information together, in bytes.
const MOST_DEBUG: u64 = 512 << 20;

type Slice<'d> = EndianSlice<'d, RunTimeEndian>;

/// Adds compilers and producers to a report.
pub(super) fn read(elf: &Elf<'_>, report: &mut Report) {
    if let Some(section) = elf.section(".comment") {
        report.compilers = texts(section.data).into_iter().collect();
    }
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    if let Some(section) = elf.section(".GCC.command.line") {
        let line: Vec<_> = section
            .data
            .split(|&byte| byte == 0)
            .take(MOST_KINDS)
            .map(cut)
            .collect();
        let line = line.join(" ").trim().to_owned();
        if !line.is_empty() {
            found.insert(line, 1);
        }
    }
    match producers(elf) {
        Ok(more) => found.extend(more),
        Err(problem) => report
            .notes
            .push(format!("debug information was not read: {problem}")),
    }
    report.producers = found.into_iter().collect();
    // The most frequent producer comes first.
    report
        .producers
        .sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
}

/// The distinct texts of a section of strings.
fn texts(data: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in data
        .split(|&byte| byte == 0)
        .filter(|text| !text.is_empty())
    {
        found.insert(cut(text));
        if found.len() == MOST_KINDS {
            break;
        }
    }
    found
}

fn cut(text: &[u8]) -> String {
    printable(&text[..text.len().min(MOST_TEXT)])
}

fn producers(elf: &Elf<'_>) -> Result<BTreeMap<String, u64>, String> {
    let Some(info) = elf
        .section(".debug_info")
        .filter(|section| !section.data.is_empty())
    else {
        return Ok(BTreeMap::new());
    };
    if elf.kind == object::elf::ET_REL.0 {
        return Err("that of an object file must be linked first".to_owned());
    }
    let endian = match elf.endian {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let mut left = MOST_DEBUG;
    let info = unpacked(info, elf, &mut left)?;
    let mut part = |name: &str| {
        elf.section(name)
            .map_or(Ok(Cow::Borrowed(&[][..])), |section| {
                unpacked(section, elf, &mut left)
            })
    };
    let tables = Tables {
        abbreviations: part(".debug_abbrev")?,
        strings: part(".debug_str")?,
        line_strings: part(".debug_line_str")?,
        offsets: part(".debug_str_offsets")?,
        endian,
    };
    let mut found = BTreeMap::new();
    let mut units = gimli::DebugInfo::new(&info, endian).units();
    for _ in 0..MOST_UNITS {
        match units.next() {
            Ok(Some(unit)) => {
                if let Some(producer) = producer_of(&unit, &tables) {
                    if found.len() < MOST_KINDS || found.contains_key(&producer) {
                        *found.entry(producer).or_insert(0) += 1;
                    }
                }
            }
            Ok(None) => return Ok(found),
            Err(error) if found.is_empty() => return Err(error.to_string()),
            Err(_) => return Ok(found),
        }
    }
    Ok(found)
}

struct Tables<'d> {
    abbreviations: Cow<'d, [u8]>,
    strings: Cow<'d, [u8]>,
    line_strings: Cow<'d, [u8]>,
    offsets: Cow<'d, [u8]>,
    endian: RunTimeEndian,
}

fn producer_of(unit: &gimli::UnitHeader<Slice<'_>>, tables: &Tables<'_>) -> Option<String> {
    // A table longer than the limit is cut: then it has no end, and the unit gives no result.
    let begin = unit.debug_abbrev_offset().0;
    let table = tables.abbreviations.get(begin..)?;
    let table = &table[..table.len().min(MOST_ABBREVIATIONS)];
    let table = gimli::DebugAbbrev::new(table, tables.endian);
    let abbreviations = table.abbreviations(gimli::DebugAbbrevOffset(0)).ok()?;
    let mut entries = unit.entries(&abbreviations);
    let (_, entry) = entries.next_dfs().ok()??;
    let value = entry.attr_value(gimli::DW_AT_producer).ok()??;
    let found = match value {
        AttributeValue::String(text) => cut(text.slice()),
        AttributeValue::DebugStrRef(at) => text_at(&tables.strings, at.0)?,
        AttributeValue::DebugLineStrRef(at) => text_at(&tables.line_strings, at.0)?,
        AttributeValue::DebugStrOffsetsIndex(index) => {
            let base = match entry.attr_value(gimli::DW_AT_str_offsets_base).ok()? {
                Some(AttributeValue::DebugStrOffsetsBase(base)) => base,
                _ => return None,
            };
            let offsets =
                gimli::DebugStrOffsets::from(EndianSlice::new(&tables.offsets, tables.endian));
            let at = offsets.get_str_offset(unit.format(), base, index).ok()?;
            text_at(&tables.strings, at.0)?
        }
        _ => return None,
    };
    (!found.is_empty()).then_some(found)
}

fn text_at(table: &[u8], offset: usize) -> Option<String> {
    let rest = table.get(offset..)?;
    let near = &rest[..rest.len().min(MOST_TEXT)];
    Some(printable(near.split(|&byte| byte == 0).next()?))
}

/// A section's bytes, unpacked if they are compressed (SHF_COMPRESSED: zlib or zstd); subtracts the unpacked size from
/// `left`.
fn unpacked<'d>(
    section: &Section<'d>,
    elf: &Elf<'_>,
    left: &mut u64,
) -> Result<Cow<'d, [u8]>, String> {
    if !section.is_compressed() {
        return Ok(Cow::Borrowed(section.data));
    }
    let number = |bytes: Option<&[u8]>| -> Option<u32> {
        let bytes: [u8; 4] = bytes?.try_into().ok()?;
        Some(match elf.endian {
            Endianness::Little => u32::from_le_bytes(bytes),
            Endianness::Big => u32::from_be_bytes(bytes),
        })
    };
    let header = if elf.is_64 { 24 } else { 12 };
    let kind = number(section.data.get(..4)).ok_or("a compressed section has no header")?;
    let packed = section
        .data
        .get(header..)
        .ok_or("a compressed section has no header")?;
    let mut found = Vec::new();
    let result = match kind {
        1 => flate2::read::ZlibDecoder::new(packed)
            .take(*left + 1)
            .read_to_end(&mut found),
        2 => super::packed::zstd(packed)
            .map_err(|error| error.to_string())?
            .take(*left + 1)
            .read_to_end(&mut found),
        _ => return Err(format!("unknown compression ({kind})")),
    };
    result.map_err(|error| format!("decompression failed ({error})"))?;
    *left = left
        .checked_sub(found.len() as u64)
        .ok_or_else(|| format!("more than {} MB", MOST_DEBUG >> 20))?;
    Ok(Cow::Owned(found))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Sections that are each small enough, but not together: a program of kilobytes must not use gigabytes.
    #[test]
    fn all_sections_together_are_bounded() {
        let mut packed = vec![0; 24];
        packed[0] = 1; // zlib
        let mut encoder = flate2::write::ZlibEncoder::new(packed, flate2::Compression::best());
        encoder.write_all(&vec![0; 3 << 20]).expect("in memory");
        let packed = encoder.finish().expect("in memory");
        let section = Section {
            name: b".debug_info",
            kind: object::elf::SHT_PROGBITS.0,
            flags: object::elf::SHF_COMPRESSED.0,
            address: 0,
            size: packed.len() as u64,
            data: &packed,
            link: 0,
            info: 0,
        };
        let elf = Elf {
            machine: object::elf::EM_X86_64.0,
            kind: object::elf::ET_EXEC.0,
            is_64: true,
            endian: Endianness::Little,
            sections: Vec::new(),
            symbols: super::super::elf::Symbols::default(),
            dynamic_symbols: super::super::elf::Symbols::default(),
            has_interpreter: false,
            segments: Vec::new(),
        };
        let mut left = 4 << 20;
        assert_eq!(
            unpacked(&section, &elf, &mut left).map(|one| one.len()),
            Ok(3 << 20)
        );
        assert_eq!(left, 1 << 20);
        assert!(unpacked(&section, &elf, &mut left).is_err());
    }
}
