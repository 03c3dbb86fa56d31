//! Which marked constants can reach the object code of a C translation unit.
//!
//! Every unit of PostgreSQL includes `c.h`, whose `PGAlignedBlock` holds BLCKSZ, so the constant is in
//! every preprocessed text, and a compiler cache never matches between two block sizes. Most units
//! never use that type. This module finds the ones that do: it splits the preprocessed text into its
//! external declarations (C11, 6.9), begins at those that emit code or data, and follows the
//! identifiers that they mention to the declarations of these names. A constant that is in none of the
//! declarations reached this way cannot change the object.
//!
//! If the text leaves room for doubt, the answer is the cautious one: that the constant does reach the object code.

mod tokens;

use std::collections::HashMap;

use self::tokens::{Kind, Token, Tokens};

/// For each marker, whether it is in a declaration that the emitted code or data depends on.
///
/// `text` is the output of the preprocessor, with or without line markers. A marker is the exact
/// spelling of a constant that occurs nowhere else, such as `0x00000002000`. At most 32 markers.
///
/// # Panics
/// If there are more than 32 markers.
#[must_use]
pub fn markers_that_reach(text: &[u8], markers: &[&[u8]]) -> Vec<bool> {
    assert!(markers.len() <= 32, "one bit of a u32 each");
    let mut reader = Reader {
        markers,
        names: HashMap::new(),
        declarations: Vec::new(),
    };
    reader.read(text);
    let reached = reached_markers(&reader.declarations, reader.names.len());
    (0..markers.len())
        .map(|bit| reached & (1 << bit) != 0)
        .collect()
}

/// An external declaration: what it declares, what it mentions, and which markers it contains.
struct Declaration {
    declares: Vec<u32>,
    mentions: Vec<u32>,
    markers: u32,
    emits: bool,
}

fn reached_markers(declarations: &[Declaration], names: usize) -> u32 {
    let mut declared_by: Vec<Vec<usize>> = vec![Vec::new(); names];
    for (index, declaration) in declarations.iter().enumerate() {
        for &name in &declaration.declares {
            declared_by[name as usize].push(index);
        }
    }
    let mut seen = vec![false; declarations.len()];
    let mut name_seen = vec![false; names];
    let mut pending: Vec<usize> = Vec::new();
    for (index, declaration) in declarations.iter().enumerate() {
        if declaration.emits {
            seen[index] = true;
            pending.push(index);
        }
    }
    let mut markers = 0;
    while let Some(index) = pending.pop() {
        markers |= declarations[index].markers;
        for &name in &declarations[index].mentions {
            if std::mem::replace(&mut name_seen[name as usize], true) {
                continue;
            }
            for &other in &declared_by[name as usize] {
                if !std::mem::replace(&mut seen[other], true) {
                    pending.push(other);
                }
            }
        }
    }
    markers
}

const TYPE_KEYWORDS: &[&[u8]] = &[b"struct", b"union", b"enum"];
const ATTRIBUTES: &[&[u8]] = &[
    b"__attribute__",
    b"__attribute",
    b"__asm__",
    b"__asm",
    b"asm",
    b"_Alignas",
    b"__declspec",
];
const INLINE: &[&[u8]] = &[b"inline", b"__inline", b"__inline__"];
// Keywords in positions where a declared name could be.
const NO_NAMES: &[&[u8]] = &[
    b"struct",
    b"union",
    b"enum",
    b"typedef",
    b"extern",
    b"static",
    b"const",
    b"volatile",
    b"restrict",
    b"__restrict",
    b"signed",
    b"unsigned",
    b"int",
    b"char",
    b"long",
    b"short",
    b"void",
    b"float",
    b"double",
    b"_Bool",
    b"__extension__",
    b"typeof",
    b"__typeof__",
    b"sizeof",
    b"_Alignof",
    b"_Atomic",
];

struct Reader<'a> {
    markers: &'a [&'a [u8]],
    names: HashMap<&'a [u8], u32>,
    declarations: Vec<Declaration>,
}

impl<'a> Reader<'a> {
    /// Splits the text into external declarations: each ends with `;` or with a function's body.
    fn read<'t: 'a>(&mut self, text: &'t [u8]) {
        let mut pending: Vec<Token<'a>> = Vec::with_capacity(1024);
        let (mut braces, mut parentheses) = (0_usize, 0_usize);
        let mut body: Option<usize> = None;
        for token in Tokens::new(text) {
            if pending.is_empty() && token.is(b";") {
                continue;
            }
            if token.kind == Kind::Mark {
                match token.text {
                    b"{" => {
                        if braces == 0 && parentheses == 0 && opens_body(&pending) {
                            body = Some(pending.len());
                        }
                        braces += 1;
                    }
                    b"}" => braces = braces.saturating_sub(1),
                    b"(" if braces == 0 => parentheses += 1,
                    b")" if braces == 0 => parentheses = parentheses.saturating_sub(1),
                    _ => {}
                }
            }
            pending.push(token);
            let ends = braces == 0
                && parentheses == 0
                && (token.is(b";") || (token.is(b"}") && body.is_some()));
            if ends {
                self.add(&pending, body);
                pending.clear();
                body = None;
            }
        }
        if !pending.is_empty() {
            self.add(&pending, body);
        }
    }

    fn add(&mut self, tokens: &[Token<'a>], body: Option<usize>) {
        if tokens[0].is_any(&[b"_Static_assert", b"static_assert"]) {
            return; // affects the compilation or stops it; emits nothing
        }
        let head = &tokens[..body.unwrap_or(tokens.len())];
        let facts = facts_of(head);
        let is_inline = head.iter().any(|token| token.is_any(INLINE));
        let emits = match body {
            Some(_) => !is_inline,
            None => facts.emits,
        };
        let mut mentions: Vec<u32> = Vec::new();
        let mut markers = 0;
        for token in tokens {
            match token.kind {
                Kind::Word => {
                    markers |= self.markers_in(*token);
                    mentions.push(self.number(token.text));
                }
                Kind::Literal => markers |= self.markers_in(*token),
                Kind::Mark => {}
            }
        }
        mentions.sort_unstable();
        mentions.dedup();
        let declares: Vec<u32> = facts.names.iter().map(|name| self.number(name)).collect();
        self.declarations.push(Declaration {
            // A declaration without a visible name is treated as reached.
            emits: emits || declares.is_empty(),
            declares,
            mentions,
            markers,
        });
    }

    fn number(&mut self, name: &'a [u8]) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.names.entry(name).or_insert(next)
    }

    /// Markers are also searched for inside strings and pasted words: `#` and `##` put them there.
    fn markers_in(&self, token: Token<'a>) -> u32 {
        let mut found = 0;
        for (bit, marker) in self.markers.iter().enumerate() {
            if token.text.len() >= marker.len()
                && (token.is(marker) || contains(token.text, marker))
            {
                found |= 1 << bit;
            }
        }
        found
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether the next brace opens a function's body, not a type or an initialiser.
fn opens_body(tokens: &[Token<'_>]) -> bool {
    let mut end = tokens.len();
    while end > 0 {
        let last = tokens[end - 1];
        if last.is(b"=") || last.is_any(TYPE_KEYWORDS) {
            return false;
        }
        if last.is(b")") {
            let Some(open) = matching_open(tokens, end - 1) else {
                return false;
            };
            if open == 0 {
                return false;
            }
            if !tokens[open - 1].is_any(ATTRIBUTES) {
                return true; // the parameters
            }
            end = open - 1;
        } else if last.kind == Kind::Word {
            end -= 1; // a tag, or a word such as `noreturn`
        } else {
            return false;
        }
    }
    false
}

fn matching_open(tokens: &[Token<'_>], close: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for index in (0..=close).rev() {
        if tokens[index].is(b")") {
            depth += 1;
        } else if tokens[index].is(b"(") {
            depth -= 1;
            if depth == 0 {
                return Some(index);
            }
        }
    }
    None
}

struct Facts<'a> {
    names: Vec<&'a [u8]>,
    emits: bool,
}

/// The names that a declaration's head declares at file scope, and whether it defines an object.
fn facts_of<'a>(tokens: &[Token<'a>]) -> Facts<'a> {
    let mut names: Vec<&'a [u8]> = Vec::new();
    let (mut is_typedef, mut is_extern, mut is_initialised) = (false, false, false);
    let (mut has_object, mut has_prototype) = (false, false);
    let mut parentheses = 0_usize;
    let mut brackets = 0_usize;
    // For each open brace, whether it contains enumerators.
    let mut braces: Vec<bool> = Vec::new();
    let mut next_brace_is_enum = false;
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1);
        let follows = |texts: &[&[u8]]| next.is_some_and(|token| token.is_any(texts));
        match token.text {
            b"{" => {
                braces.push(next_brace_is_enum);
                next_brace_is_enum = false;
            }
            b"}" => {
                braces.pop();
            }
            b"(" => parentheses += 1,
            b")" => parentheses = parentheses.saturating_sub(1),
            b"[" => brackets += 1,
            b"]" => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        let at_top = braces.is_empty();
        if at_top && token.is(b"=") && parentheses == 0 {
            is_initialised = true;
        }
        if token.kind != Kind::Word {
            continue;
        }
        let before = index.checked_sub(1).map(|before| &tokens[before]);
        let after = |texts: &[&[u8]]| before.is_some_and(|token| token.is_any(texts));
        match token.text {
            b"typedef" if at_top => is_typedef = true,
            b"extern" if at_top => is_extern = true,
            b"enum" => next_brace_is_enum = true,
            b"struct" | b"union" => next_brace_is_enum = false,
            _ if token.is_any(NO_NAMES) || token.is_any(ATTRIBUTES) || token.is_any(INLINE) => {}
            _ => {
                let is_tag = is_tag(tokens, index);
                let is_enumerator = braces.last() == Some(&true) && after(&[b"{", b","]);
                let at_declarator = at_top && brackets == 0 && !is_tag;
                // `int (*f)(void)`: what comes before the parenthesis is a type.
                let is_function = at_declarator
                    && parentheses == 0
                    && follows(&[b"("])
                    && !tokens.get(index + 2).is_some_and(|token| token.is(b"*"));
                let ends_declarator = next.is_none()
                    || follows(&[b"[", b";", b",", b"=", b":"])
                    || follows(ATTRIBUTES);
                let is_object = at_declarator
                    && (parentheses == 0 && ends_declarator || after_open_star(tokens, index));
                has_prototype |= is_function;
                has_object |= is_object;
                if is_tag && follows(&[b"{", b";"]) || is_enumerator || is_function || is_object {
                    names.push(token.text);
                }
            }
        }
    }
    let only_types = !has_object && !has_prototype;
    let emits = is_initialised && !is_typedef
        || !(is_typedef || is_extern || only_types || (has_prototype && !has_object));
    Facts { names, emits }
}

/// Whether the word is the tag of a struct, union or enum, which follows one of these words and possibly attributes.
fn is_tag(tokens: &[Token<'_>], index: usize) -> bool {
    let mut end = index;
    while end > 0 {
        let last = tokens[end - 1];
        if last.is_any(TYPE_KEYWORDS) {
            return true;
        }
        if !last.is(b")") {
            return false;
        }
        match matching_open(tokens, end - 1) {
            Some(open) if open > 0 && tokens[open - 1].is_any(ATTRIBUTES) => end = open - 1,
            _ => return false,
        }
    }
    false
}

/// Whether the word comes after `(*`, as the name of a pointer to a function does.
fn after_open_star(tokens: &[Token<'_>], index: usize) -> bool {
    let mut end = index;
    let mut stars = 0;
    while end > 0 {
        let last = tokens[end - 1];
        if last.is(b"*") {
            stars += 1;
        } else if last.is(b"(") {
            return stars > 0;
        } else if !last.is_any(&[b"const", b"volatile"]) {
            return false;
        }
        end -= 1;
    }
    false
}

#[cfg(test)]
mod tests;
