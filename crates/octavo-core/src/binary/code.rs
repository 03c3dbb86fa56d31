//! Which bytes of a section are instructions: mapping symbols, and the beginnings of functions.

use super::elf::{Elf, Section, Symbol};

const NO_TYPE: u8 = 0;
const FUNCTION: u8 = 2;
const INDIRECT_FUNCTION: u8 = 10;

/// A part of the code with its symbols.
#[derive(Debug)]
pub(super) struct Code<'d> {
    pub(super) address: u64,
    pub(super) data: &'d [u8],
    /// The section's index.
    pub(super) section: usize,
    /// Offsets from which on there are instructions (true) or data (false), ascending (AAELF64, mapping symbols).
    marks: Vec<(u64, bool)>,
    /// Offsets of symbols, ascending.
    pub(super) starts: Vec<u64>,
}

impl<'d> Code<'d> {
    /// The ranges of offsets that are instructions: begin and end. All of the part if there are no mapping symbols.
    pub(super) fn instructions(&self) -> Vec<(usize, usize)> {
        let end = self.data.len();
        let mut found = Vec::new();
        let (mut begin, mut is_code) = (0, true);
        for &(offset, then) in &self.marks {
            let offset = usize::try_from(offset).map_or(end, |offset| offset.min(end));
            if is_code && offset > begin {
                found.push((begin, offset));
            }
            (begin, is_code) = (offset, then);
        }
        if is_code && end > begin {
            found.push((begin, end));
        }
        found
    }
}

/// The parts of a file that contain instructions, with their symbols.
pub(super) fn parts<'d>(
    elf: &Elf<'d>,
    code: &[(usize, Section<'d>)],
    is_relative: bool,
) -> Vec<Code<'d>> {
    let mut found: Vec<_> = code
        .iter()
        .map(|&(section, part)| Code {
            address: if is_relative { 0 } else { part.address },
            data: part.data,
            section,
            marks: Vec::new(),
            starts: Vec::new(),
        })
        .collect();
    let mut place = vec![usize::MAX; elf.sections.len()];
    for (at, (section, _)) in code.iter().enumerate() {
        if let Some(slot) = place.get_mut(*section) {
            *slot = at;
        }
    }
    for symbol in &elf.symbols.all {
        let Some(part) = place
            .get(usize::from(symbol.section))
            .and_then(|&at| found.get_mut(at))
        else {
            continue;
        };
        let Some(offset) = symbol.value.checked_sub(part.address) else {
            continue;
        };
        match mapping(elf, symbol) {
            Some(is_code) => part.marks.push((offset, is_code)),
            None if matches!(symbol.kind, NO_TYPE | FUNCTION | INDIRECT_FUNCTION) => {
                part.starts.push(offset)
            }
            None => {}
        }
    }
    for part in &mut found {
        part.marks.sort_unstable();
        part.starts.sort_unstable();
        part.starts.dedup();
    }
    found
}

/// Whether instructions (`$x`) or data (`$d`) begin at a symbol of an AArch64 file; None for other symbols.
fn mapping(elf: &Elf<'_>, symbol: &Symbol) -> Option<bool> {
    if symbol.kind != NO_TYPE || elf.machine != object::elf::EM_AARCH64.0 {
        return None;
    }
    match elf.symbols.name(symbol) {
        [b'$', b'x'] | [b'$', b'x', b'.', ..] => Some(true),
        [b'$', b'd'] | [b'$', b'd', b'.', ..] => Some(false),
        _ => None,
    }
}

/// Symbols of functions by address, to name the function that contains an address.
#[derive(Debug)]
pub(super) struct Functions<'d> {
    /// Section, value and symbol.
    sorted: Vec<(u16, u64, Symbol)>,
    names: &'d super::elf::Symbols<'d>,
}

impl<'d> Functions<'d> {
    /// The functions of the full symbol table, or of the dynamic one.
    pub(super) fn of(elf: &'d Elf<'d>) -> Self {
        let names = if elf.symbols.all.is_empty() {
            &elf.dynamic_symbols
        } else {
            &elf.symbols
        };
        let is_function = |symbol: &&Symbol| {
            matches!(symbol.kind, FUNCTION | INDIRECT_FUNCTION) && symbol.section != 0
        };
        let functions = names.all.iter().filter(is_function);
        let mut sorted: Vec<_> = functions
            .map(|&symbol| (symbol.section, symbol.value, symbol))
            .collect();
        sorted.sort_unstable_by_key(|&(section, value, _)| (section, value));
        Self { sorted, names }
    }

    /// The name of the function that contains an address of a section.
    pub(super) fn at(&self, section: usize, address: u64) -> Option<String> {
        let section = u16::try_from(section).ok()?;
        let after = self
            .sorted
            .partition_point(|&(other, value, _)| (other, value) <= (section, address));
        let &(other, value, symbol) = self.sorted.get(after.checked_sub(1)?)?;
        let is_inside = other == section && address - value < symbol.size.max(1);
        is_inside.then(|| super::report::printable(self.names.name(&symbol)))
    }
}

/// Whether the program asks the system for the CPU's features, or has functions that are selected when it is loaded.
pub(super) fn chooses_at_run_time(elf: &Elf<'_>) -> bool {
    let asks = |symbol: &Symbol| {
        let name = elf.dynamic_symbols.name(symbol);
        symbol.kind == INDIRECT_FUNCTION
            || matches!(
                name,
                b"getauxval" | b"__getauxval" | b"__cpu_model" | b"__cpu_indicator_init"
            )
    };
    elf.dynamic_symbols.all.iter().any(asks)
        || elf
            .symbols
            .all
            .iter()
            .any(|symbol| symbol.kind == INDIRECT_FUNCTION)
}
