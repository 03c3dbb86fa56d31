//! The state that encoder and decoder of a frame's accesses share, and their predictions.

use super::{BLOCK, CONTEXTS_OF, HOW, STREAM};

/// The longest run of a backend in a stream that is distinguished.
pub(super) const RUNS: usize = 4;

#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) stream: usize,
    pub(super) run: usize,
    pub(super) block: u64,
}

/// The state of a stream after a number of accesses in a run.
#[derive(Clone, Copy, Default)]
pub(super) struct Point {
    pub(super) block: u64,
    /// Above zero if the backend's own last block was the better prediction.
    pub(super) own_is_better: i32,
    pub(super) class: u8,
    pub(super) next: [Option<u32>; 2],
}

/// The shared state of encoder and decoder.
pub(super) struct Model {
    pub(super) who: Vec<Who>,
    pub(super) points: Vec<Point>,
    pub(super) how: Vec<u8>,
    pub(super) last: Vec<u64>,
    pub(super) backend: usize,
    pub(super) time: u64,
}

impl Model {
    pub(super) fn new(streams: usize, backends: usize, time: u64) -> Self {
        Self {
            // A backend starts in a stream that does not exist.
            who: vec![
                Who {
                    stream: streams,
                    run: 0,
                    block: 0
                };
                backends
            ],
            points: vec![Point::default(); (streams + 1) * RUNS],
            how: vec![0; streams],
            last: vec![0; streams],
            backend: 0,
            time,
        }
    }

    #[inline]
    pub(super) fn stream_context(&self, who: Who) -> usize {
        CONTEXTS_OF[STREAM] + (who.stream & 3) * RUNS + who.run
    }

    #[inline]
    pub(super) fn enter(
        &mut self,
        backend: usize,
        before: Who,
        stream: usize,
        rank: Option<u8>,
    ) -> Who {
        let next = &mut self.points[before.stream * RUNS + before.run].next;
        if rank != Some(0) {
            *next = [Some(stream as u32), next[0]];
        }
        let run = if before.stream == stream {
            (before.run + 1).min(RUNS - 1)
        } else {
            0
        };
        self.who[backend].stream = stream;
        self.who[backend].run = run;
        Who {
            stream,
            run,
            block: before.block,
        }
    }

    /// The predictions by position and by backend, whether the latter is used, and the context.
    #[inline]
    pub(super) fn guesses(&self, who: Who) -> (u64, u64, bool, usize) {
        let point = &self.points[who.stream * RUNS + who.run];
        let own = if who.run > 0 {
            who.block
        } else {
            self.last[who.stream]
        };
        let context =
            CONTEXTS_OF[BLOCK] + usize::from(point.class) + if who.run > 0 { 6 } else { 0 };
        (point.block, own, point.own_is_better > 0, context)
    }

    #[inline]
    pub(super) fn leave(
        &mut self,
        backend: usize,
        who: Who,
        block: u64,
        guesses: (u64, u64),
        symbol: u8,
    ) {
        let point = &mut self.points[who.stream * RUNS + who.run];
        let bits = |guess: u64| {
            64 - (block.wrapping_sub(guess) as i64)
                .unsigned_abs()
                .leading_zeros() as i32
        };
        point.own_is_better += bits(guesses.0) - bits(guesses.1) - point.own_is_better / 8;
        point.block = block;
        point.class = match symbol.div_ceil(2) {
            0 => 0,
            1..=2 => 1,
            3..=6 => 2,
            7..=12 => 3,
            13..=16 => 4,
            _ => 5,
        };
        self.last[who.stream] = block;
        self.who[backend].block = block;
        self.backend = backend;
    }

    #[inline]
    pub(super) fn how_context(&self, stream: usize) -> usize {
        CONTEXTS_OF[HOW] + usize::from(self.how[stream] & 7)
    }
}
