//! The atomic instructions of AArch64, by bit pattern.
//!
//! Source: Arm Architecture Reference Manual for A-profile (DDI 0487), C4.1 "A64 instruction set encoding", "Loads and
//! Stores": load/store exclusive register and pair, load/store ordered, compare and swap (pair), atomic memory
//! operations, and the 128-bit ones of FEAT_LSE128. Names are those of the preferred disassembly. Bits that should be
//! one (Rs of a load, Rt2 of a single register) are checked where binutils checks them, so that data among instructions
//! counts as it does there.

/// The kind of an atomic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Group {
    /// Load and store exclusives, in every Armv8-A CPU: an update is a loop that is repeated under contention.
    Exclusive,
    /// Large System Extensions (FEAT_LSE, Armv8.1) and FEAT_LSE128: an update is one instruction.
    Lse,
    /// Load-acquire and store-release without exclusivity: not an update.
    Ordered,
}

impl Group {
    /// Its name; the first two as in published listings.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "load and store exclusives",
            Self::Lse => "large-system extensions",
            Self::Ordered => "ordered loads and stores",
        }
    }
}

/// A mnemonic in parts: operation, order (acquire, release), size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Mnemonic {
    operation: &'static str,
    order: &'static str,
    size: &'static str,
}

impl std::fmt::Display for Mnemonic {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}{}{}", self.operation, self.order, self.size)
    }
}

impl Mnemonic {
    /// The operation without order and size: `ldadd` of `ldaddalb`.
    pub(super) fn operation(self) -> &'static str {
        self.operation
    }

    /// `a`, `l`, `al` or nothing.
    pub(super) fn order(self) -> &'static str {
        self.order
    }
}

const ZERO_REGISTER: u32 = 31;

/// The atomic instruction encoded by a word of code; None for any other instruction.
#[inline]
pub(super) fn decode(word: u32) -> Option<(Mnemonic, Group)> {
    // Bits 29 to 24 select the family; all but a few words end here.
    match word >> 24 & 0x3f {
        0b00_1000 => exclusive(word),
        0b11_1000 => operation(word),
        0b01_1001 => wide(word),
        _ => None,
    }
}

fn bit(word: u32, place: u32) -> bool {
    word >> place & 1 == 1
}

/// The suffix of a byte or a half word; words and double words have none.
fn size_of(word: u32) -> &'static str {
    ["b", "h", "", ""][(word >> 30) as usize]
}

fn order_of(acquire: bool, release: bool) -> &'static str {
    match (acquire, release) {
        (false, false) => "",
        (true, false) => "a",
        (false, true) => "l",
        (true, true) => "al",
    }
}

/// `size 001000 o2 L o1 Rs o0 Rt2 Rn Rt`: exclusives, ordered ones, compare and swap.
fn exclusive(word: u32) -> Option<(Mnemonic, Group)> {
    let (o2, load, o1, o0) = (bit(word, 23), bit(word, 22), bit(word, 21), bit(word, 15));
    let single = word >> 10 & 31 == 31; // Rt2 is no register
    let named = |operation, order, size, group| {
        let mnemonic = Mnemonic {
            operation,
            order,
            size,
        };
        Some((mnemonic, group))
    };
    match (o2, o1) {
        (false, false) => {
            let operation =
                ["stxr", "stlxr", "ldxr", "ldaxr"][usize::from(load) * 2 + usize::from(o0)];
            named(operation, "", size_of(word), Group::Exclusive)
        }
        // With bit 31 it is a pair of exclusives; without it a compare and swap of a pair, whose size is bit 30.
        (false, true) if bit(word, 31) => {
            let operation =
                ["stxp", "stlxp", "ldxp", "ldaxp"][usize::from(load) * 2 + usize::from(o0)];
            named(operation, "", "", Group::Exclusive)
        }
        // The first register of a pair is even; an odd one is undefined.
        (false, true) if single && word & 0x0001_0001 == 0 => {
            named("casp", order_of(load, o0), "", Group::Lse)
        }
        (true, true) if single => named("cas", order_of(load, o0), size_of(word), Group::Lse),
        (true, false) if !(load && o0) || word & 0x000f_7c00 == 0x000f_7c00 => {
            let operation =
                ["stllr", "stlr", "ldlar", "ldar"][usize::from(load) * 2 + usize::from(o0)];
            named(operation, "", size_of(word), Group::Ordered)
        }
        _ => None,
    }
}

/// `size 111000 A R 1 Rs o3 opc 00 Rn Rt`: atomic memory operations, and load-acquire of FEAT_LRCPC among them.
fn operation(word: u32) -> Option<(Mnemonic, Group)> {
    if !bit(word, 21) || word >> 10 & 3 != 0 {
        return None;
    }
    let (acquire, release) = (bit(word, 23), bit(word, 22));
    let (source, target) = (word >> 16 & 31, word & 31);
    let which = (word >> 12 & 7) as usize;
    let size = size_of(word);
    let (loading, storing) = [
        ("ldadd", "stadd"),
        ("ldclr", "stclr"),
        ("ldeor", "steor"),
        ("ldset", "stset"),
        ("ldsmax", "stsmax"),
        ("ldsmin", "stsmin"),
        ("ldumax", "stumax"),
        ("ldumin", "stumin"),
    ][which];
    let order = order_of(acquire, release);
    if !bit(word, 15) {
        // One that discards the old value and does not acquire is written as a store.
        let operation = if target == ZERO_REGISTER && !acquire {
            storing
        } else {
            loading
        };
        return Some((
            Mnemonic {
                operation,
                order,
                size,
            },
            Group::Lse,
        ));
    }
    match which {
        0 => Some((
            Mnemonic {
                operation: "swp",
                order,
                size,
            },
            Group::Lse,
        )),
        4 if acquire && !release && source == ZERO_REGISTER => Some((
            Mnemonic {
                operation: "ldapr",
                order: "",
                size,
            },
            Group::Ordered,
        )),
        _ => None,
    }
}

/// `00 011001 A R 1 Rt2 o3 opc 00 Rn Rt`: operations on 128 bits (FEAT_LSE128).
fn wide(word: u32) -> Option<(Mnemonic, Group)> {
    if word >> 30 != 0 || !bit(word, 21) || word >> 10 & 3 != 0 {
        return None;
    }
    let operation = match word >> 12 & 15 {
        0b0001 => "ldclrp",
        0b0011 => "ldsetp",
        0b1000 => "swpp",
        _ => return None,
    };
    let order = order_of(bit(word, 23), bit(word, 22));
    Some((
        Mnemonic {
            operation,
            order,
            size: "",
        },
        Group::Lse,
    ))
}

#[cfg(test)]
mod tests {
    use super::{Group, decode};

    fn name(word: u32) -> String {
        decode(word).map_or_else(|| "-".to_owned(), |(mnemonic, _)| mnemonic.to_string())
    }

    #[test]
    fn the_families_have_the_names_of_the_manual() {
        // As an assembler made them: opcode, then its operands.
        for (word, expected) in [
            (0x885f_7c20, "ldxr"),
            (0xc85f_fc20, "ldaxr"),
            (0x0800_7c41, "stxrb"),
            (0x4800_fc41, "stlxrh"),
            (0xc87f_0420, "ldxp"),
            (0x8820_8c41, "stlxp"),
            (0x88e0_fc41, "casal"),
            (0x08a0_7c41, "casb"),
            (0x48a0_fc41, "caslh"),
            (0x4860_7c82, "caspa"),
            (0xf820_0020, "ldadd"),
            (0x38e0_1020, "ldclralb"),
            (0x7820_203f, "steorh"),
            (0xb860_301f, "stsetl"),
            (0xb8a0_301f, "ldseta"),
            (0xb8a0_8020, "swpa"),
            (0xb8bf_c020, "ldapr"),
            (0xf8e0_7041, "lduminal"),
            (0x88df_fc20, "ldar"),
            (0x089f_fc20, "stlrb"),
            (0x1921_1000, "ldclrp"),
            (0x19e1_8000, "swppal"),
            (0xd65f_03c0, "-"), // ret
            (0xf840_0c20, "-"), // ldr with writeback, the same family but bit 21
            (0xd503_201f, "-"), // nop
        ] {
            assert_eq!(name(word), expected, "{word:08x}");
        }
    }

    #[test]
    fn stores_are_stores_only_without_acquire() {
        assert_eq!(
            decode(0xb860_301f).map(|(_, group)| group),
            Some(Group::Lse)
        );
        assert_eq!(name(0xb8e0_301f), "ldsetal");
    }
}
