use super::Server;

/// The number of blocks that the background writer and a checkpoint write before they make the kernel write them
/// (bgwriter_flush_after and checkpoint_flush_after, whose defaults count blocks); 0 for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushSettings {
    /// Of the background writer.
    pub writer: usize,
    /// Of a checkpoint.
    pub checkpoint: usize,
}

impl Default for FlushSettings {
    fn default() -> Self {
        Self {
            writer: 64,
            checkpoint: 32,
        }
    }
}

impl Server {
    /// Writes a block into the page cache. Returns its location.
    pub(super) fn write(&mut self, number: u32) -> (u32, u64) {
        let (stream, offset) = self.blocks.home(number, &self.homes, self.own_size);
        self.write_at(stream, offset);
        (stream, offset)
    }

    fn write_at(&mut self, stream: u32, offset: u64) {
        self.requests.writes += 1;
        self.requests.written_bytes += self.block_size;
        if let Some(kernel) = &mut self.kernel {
            let size = self.sizes[stream as usize];
            kernel.write(stream, offset, self.block_size, size);
        }
    }

    /// As BufferSync: in the order of files, with intermediate flushes, and synced at the end.
    pub(super) fn checkpoint(&mut self) {
        let mut dirty = Vec::new();
        self.buffers.checkpoint(|page| dirty.push(page));
        let mut places: Vec<_> = dirty
            .into_iter()
            .map(|page| self.blocks.home(page, &self.homes, self.own_size))
            .collect();
        places.sort_unstable();
        let after = self.flushes.checkpoint;
        for part in places.chunks(if after == 0 { usize::MAX } else { after }) {
            for &(stream, offset) in part {
                self.write_at(stream, offset);
            }
            if let Some(kernel) = self.kernel.as_mut().filter(|_| after > 0) {
                kernel.flush(&mut part.to_vec(), self.block_size);
            }
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.sync();
        }
        self.unflushed.clear();
    }

    /// The writes of the background writer by a time in microseconds.
    pub(super) fn write_ahead(&mut self, time: u64) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let mut written = Vec::new();
        writer.run(time, &mut self.buffers, &mut |page| written.push(page));
        for page in written {
            let place = self.write(page);
            if self.flushes.writer == 0 {
                continue;
            }
            self.unflushed.push(place);
            if self.unflushed.len() < self.flushes.writer {
                continue;
            }
            if let Some(kernel) = &mut self.kernel {
                kernel.flush(&mut self.unflushed, self.block_size);
            }
            self.unflushed.clear();
        }
    }
}
