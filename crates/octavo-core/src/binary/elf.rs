//! The parts of an ELF file that are needed here, whatever its class and byte order.
//!
//! Source: System V ABI, gABI chapters 4 and 5; elf(5). No field of a file is trusted: a part outside of the file is an
//! error, names are read up to a limit, and overlapping parts are refused, since they would make the work larger than
//! the file.

use object::{
    Endianness,
    elf::{self, FileHeader32, FileHeader64},
    read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _, Sym as _},
};

use super::Error;

/// The longest name that is read, in bytes.
const NAME_BYTES: usize = 256;

/// A section with its bytes; empty for those that are not in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section<'d> {
    pub(super) name: &'d [u8],
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) data: &'d [u8],
    pub(super) link: u32,
    pub(super) info: u32,
}

impl Section<'_> {
    pub(super) fn is_code(&self) -> bool {
        self.flags & elf::SHF_EXECINSTR.0 != 0
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.flags & elf::SHF_COMPRESSED.0 != 0
    }
}

/// A symbol, with the offset of its name, because few names are needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol {
    pub(super) name: u32,
    pub(super) kind: u8,
    pub(super) section: u16,
    pub(super) value: u64,
    pub(super) size: u64,
}

/// A table of symbols with its strings.
#[derive(Debug, Default)]
pub(super) struct Symbols<'d> {
    pub(super) all: Vec<Symbol>,
    strings: &'d [u8],
}

impl<'d> Symbols<'d> {
    /// A symbol's name, cut after 256 bytes.
    pub(super) fn name(&self, symbol: &Symbol) -> &'d [u8] {
        string_at(self.strings, symbol.name as usize)
    }
}

/// The string at an offset, without its terminator, cut after 256 bytes; empty if the offset is outside of the table.
pub(super) fn string_at(table: &[u8], offset: usize) -> &[u8] {
    let rest = table.get(offset..).unwrap_or_default();
    let near = &rest[..rest.len().min(NAME_BYTES)];
    &near[..near
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(near.len())]
}

/// A file's parts.
#[derive(Debug)]
pub(super) struct Elf<'d> {
    pub(super) machine: u16,
    pub(super) kind: u16,
    pub(super) is_64: bool,
    pub(super) endian: Endianness,
    pub(super) sections: Vec<Section<'d>>,
    pub(super) symbols: Symbols<'d>,
    pub(super) dynamic_symbols: Symbols<'d>,
    pub(super) has_interpreter: bool,
    /// The executable segments, for a file whose section headers were removed.
    pub(super) segments: Vec<Section<'d>>,
}

impl<'d> Elf<'d> {
    /// Whether the content begins like an ELF file.
    pub(super) fn is_elf(content: &[u8]) -> bool {
        content.starts_with(b"\x7fELF")
    }

    pub(super) fn parse(content: &'d [u8]) -> Result<Self, Error> {
        match content.get(4) {
            Some(1) => parse::<FileHeader32<Endianness>>(content, false),
            Some(2) => parse::<FileHeader64<Endianness>>(content, true),
            Some(_) => Err(Error::Malformed("neither 32-bit nor 64-bit")),
            None => Err(Error::Truncated("the ELF header")),
        }
    }

    /// The first section with a name.
    pub(super) fn section(&self, name: &str) -> Option<&Section<'d>> {
        self.sections
            .iter()
            .find(|section| section.name == name.as_bytes())
    }

    /// Everything with instructions: sections, or segments if there are no section headers.
    ///
    /// # Errors
    ///
    /// If they are larger than the file, so that they overlap.
    pub(super) fn code(&self, file_bytes: usize) -> Result<Vec<(usize, Section<'d>)>, Error> {
        let found: Vec<_> = if self.sections.is_empty() {
            self.segments.iter().copied().enumerate().collect()
        } else {
            let sections = self.sections.iter().copied().enumerate();
            sections
                .filter(|(_, one)| one.is_code() && !one.data.is_empty())
                .collect()
        };
        let mut left = file_bytes;
        for (_, one) in &found {
            left = left
                .checked_sub(one.data.len())
                .ok_or(Error::Malformed("executable parts overlap"))?;
        }
        Ok(found)
    }
}

fn parse<'d, E: FileHeader<Endian = Endianness>>(
    content: &'d [u8],
    is_64: bool,
) -> Result<Elf<'d>, Error> {
    let header = E::parse(content).map_err(|_| Error::Truncated("the ELF header"))?;
    let endian = header
        .endian()
        .map_err(|_| Error::Malformed("unknown byte order"))?;
    let sections = sections(header, endian, content)?;
    let programs = header
        .program_headers(endian, content)
        .map_err(|_| Error::Truncated("the program header table"))?;
    let mut segments = Vec::new();
    for program in programs {
        let kind = program.p_type(endian);
        if kind == elf::PT_LOAD && program.p_flags(endian).0 & elf::PF_X.0 != 0 {
            let data = program
                .data(endian, content)
                .map_err(|()| Error::Truncated("a segment"))?;
            segments.push(Section {
                name: b"",
                kind: elf::SHT_PROGBITS.0,
                flags: elf::SHF_EXECINSTR.0,
                address: program.p_vaddr(endian).into(),
                size: data.len() as u64,
                data,
                link: 0,
                info: 0,
            });
        }
    }
    let symbols = symbols::<E>(&sections, elf::SHT_SYMTAB.0, endian)?;
    let dynamic_symbols = symbols_or_none::<E>(&sections, endian);
    Ok(Elf {
        machine: header.e_machine(endian).0,
        kind: header.e_type(endian).0,
        is_64,
        endian,
        symbols,
        dynamic_symbols,
        has_interpreter: programs
            .iter()
            .any(|one| one.p_type(endian) == elf::PT_INTERP),
        segments,
        sections,
    })
}

fn sections<'d, E: FileHeader<Endian = Endianness>>(
    header: &E,
    endian: Endianness,
    content: &'d [u8],
) -> Result<Vec<Section<'d>>, Error> {
    let outside = |_| Error::Truncated("the section header table");
    let headers = header.section_headers(endian, content).map_err(outside)?;
    if headers.is_empty() {
        return Ok(Vec::new());
    }
    // A file may have no names: then only the types of its sections are known.
    let names = header.shstrndx(endian, content).ok();
    let names = names.and_then(|names| headers.get(names as usize)?.data(endian, content).ok());
    let names = names.unwrap_or_default();
    let mut found = Vec::with_capacity(headers.len());
    for section in headers {
        let data = section
            .data(endian, content)
            .map_err(|_| Error::Truncated("a section"))?;
        found.push(Section {
            name: string_at(names, section.sh_name(endian) as usize),
            kind: section.sh_type(endian).0,
            flags: section.sh_flags(endian).0,
            address: section.sh_addr(endian).into(),
            size: section.sh_size(endian).into(),
            data,
            link: section.sh_link(endian),
            info: section.sh_info(endian),
        });
    }
    Ok(found)
}

fn symbols_or_none<'d, E: FileHeader<Endian = Endianness>>(
    sections: &[Section<'d>],
    endian: Endianness,
) -> Symbols<'d> {
    symbols::<E>(sections, elf::SHT_DYNSYM.0, endian).unwrap_or_default()
}

/// The first symbol table of a kind.
fn symbols<'d, E: FileHeader<Endian = Endianness>>(
    sections: &[Section<'d>],
    kind: u32,
    endian: Endianness,
) -> Result<Symbols<'d>, Error> {
    let Some(section) = sections.iter().find(|section| section.kind == kind) else {
        return Ok(Symbols::default());
    };
    let count = section.data.len() / size_of::<E::Sym>();
    let (table, _) = object::pod::slice_from_bytes::<E::Sym>(section.data, count)
        .map_err(|()| Error::Malformed("the symbol table cannot be read"))?;
    let strings = sections
        .get(section.link as usize)
        .map_or(&[][..], |strings| strings.data);
    let read = |symbol: &E::Sym| Symbol {
        name: symbol.st_name(endian),
        kind: symbol.st_type().0,
        section: symbol.st_shndx(endian).0,
        value: symbol.st_value(endian).into(),
        size: symbol.st_size(endian).into(),
    };
    Ok(Symbols {
        all: table.iter().map(read).collect(),
        strings,
    })
}
