use std::io::Write;

use super::{
    Access, Error, Fact, MOST_IN_A_BLOCK,
    bytes::put_number,
    columns::Gatherer,
    frame::{Frame, FrameKind, page_size},
};

/// The most facts in a frame.
const MOST_FACTS: usize = 1 << 16;

/// Writes a trace as a stream, in one pass.
pub struct Writer<W: Write> {
    into: W,
    page_size: u32,
    facts: Vec<u8>,
    gatherer: Gatherer,
    accesses: u64,
}

impl<W: Write> Writer<W> {
    /// A trace of pages of this size in bytes.
    ///
    /// # Errors
    /// `PageSize` if it is not a valid page size.
    pub fn new(into: W, size: u64) -> Result<Self, Error> {
        Ok(Self {
            into,
            page_size: page_size(size)?,
            facts: Vec::new(),
            gatherer: Gatherer::new(),
            accesses: 0,
        })
    }

    /// Adds a fact, which comes before the following accesses and after those already written.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn fact(&mut self, fact: &Fact) -> Result<(), Error> {
        let before = self.facts.len();
        fact.put(&mut self.facts);
        if self.facts.len() > MOST_FACTS {
            let last = self.facts.split_off(before);
            self.write_facts()?;
            self.facts = last;
        }
        Ok(())
    }

    /// Adds an access.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn push(&mut self, access: &Access) -> Result<(), Error> {
        self.gatherer.push(access);
        if self.gatherer.len() == MOST_IN_A_BLOCK {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// The number of accesses.
    pub fn accesses(&self) -> u64 {
        self.accesses + self.gatherer.len() as u64
    }

    /// Writes everything collected: the trace is complete up to here.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.write_facts()?;
        let count = self.gatherer.len() as u32;
        if count > 0 {
            let payload = self.gatherer.take();
            self.write(FrameKind::Accesses, count, &payload)?;
            self.accesses += u64::from(count);
        }
        self.into.flush()?;
        Ok(())
    }

    /// Writes the rest and the frame that marks a complete end.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, Error> {
        self.flush()?;
        let mut payload = Vec::new();
        put_number(&mut payload, self.accesses);
        self.write(FrameKind::End, 0, &payload)?;
        self.into.flush()?;
        Ok(self.into)
    }

    fn write_facts(&mut self) -> Result<(), Error> {
        if !self.facts.is_empty() {
            let payload = std::mem::take(&mut self.facts);
            self.write(FrameKind::Facts, 0, &payload)?;
        }
        Ok(())
    }

    fn write(&mut self, kind: FrameKind, count: u32, payload: &[u8]) -> Result<(), Error> {
        let frame = Frame::of(kind, self.page_size, count, self.accesses, payload);
        self.into.write_all(&frame.bytes())?;
        self.into.write_all(payload)?;
        Ok(())
    }
}
