//! The tokens of preprocessed C.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Literal,
    Mark,
}

#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a [u8],
}

impl Token<'_> {
    pub(super) fn is(&self, text: &[u8]) -> bool {
        self.text == text
    }

    pub(super) fn is_any(&self, texts: &[&[u8]]) -> bool {
        texts.contains(&self.text)
    }
}

/// The tokens of preprocessed C: words, literals (numbers, strings, characters) and single
/// characters.
pub(super) struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    line_begins: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            line_begins: true,
        }
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.text.get(self.at).is_some_and(|&byte| accept(byte)) {
            self.at += 1;
        }
    }

    /// Skips a string or character literal that begins here.
    fn skip_quoted(&mut self, quote: u8) {
        self.at += 1;
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            if byte == b'\\' {
                self.at += 1;
            } else if byte == quote || byte == b'\n' {
                break;
            }
        }
        self.at = self.at.min(self.text.len());
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let byte = *self.text.get(self.at)?;
            match byte {
                b'\n' => {
                    self.line_begins = true;
                    self.at += 1;
                }
                b'#' if self.line_begins => self.skip_while(|byte| byte != b'\n'),
                _ if byte.is_ascii_whitespace() => self.at += 1,
                _ => break,
            }
        }
        self.line_begins = false;
        let start = self.at;
        let byte = self.text[start];
        let kind = match byte {
            b'"' | b'\'' => {
                self.skip_quoted(byte);
                Kind::Literal
            }
            b'0'..=b'9' => {
                self.skip_while(|byte| is_word(byte) || byte == b'.');
                Kind::Literal
            }
            _ if is_word(byte) => {
                self.skip_while(is_word);
                Kind::Word
            }
            _ => {
                self.at += 1;
                Kind::Mark
            }
        };
        Some(Token {
            kind,
            text: &self.text[start..self.at],
        })
    }
}
