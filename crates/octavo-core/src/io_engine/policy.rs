//! How blocks are joined into requests.

use super::pattern::{Run, Walk};

/// The rule for joining blocks into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// Every block is a separate request.
    Single,
    /// The blocks of a run, up to a limit, are a request.
    Run {
        /// The most blocks of a request.
        most: u64,
    },
    /// Adjacent blocks are joined, also from one run into the next, and holes between them are read, too.
    Coalesced {
        /// The most blocks of a request, holes included.
        most: u64,
        /// The most blocks of one hole.
        hole: u64,
    },
}

impl Joining {
    /// The most blocks that a request can have.
    #[must_use]
    pub fn most(self) -> u64 {
        match self {
            Self::Single => 1,
            Self::Run { most } | Self::Coalesced { most, .. } => most,
        }
    }
}

/// One request: consecutive blocks of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The first block.
    pub first: u64,
    /// All blocks, holes included.
    pub span: u64,
    /// The wanted blocks, without the holes.
    pub wanted: u64,
}

/// The requests for the blocks of a walk.
///
/// `end_of_file(block)` is the first block after the file that contains `block`: no request crosses it, just as no
/// request of PostgreSQL's crosses the end of a segment.
#[derive(Clone, Debug)]
pub struct Requests<'a, F> {
    walk: Walk<'a>,
    rest: Option<Run>,
    joining: Joining,
    end_of_file: F,
    pieces: Vec<Run>,
}

impl<'a, F: Fn(u64) -> u64> Requests<'a, F> {
    /// Makes requests by the rule of `joining`.
    pub fn new(walk: Walk<'a>, joining: Joining, end_of_file: F) -> Self {
        // A request that begins with a block and has a hole after every one: the maximum of pieces.
        let pieces = usize::try_from(joining.most().div_ceil(2)).expect("a request fits in memory");
        Self {
            walk,
            rest: None,
            joining,
            end_of_file,
            pieces: Vec::with_capacity(pieces),
        }
    }

    /// The next request, if there is one.
    #[inline]
    pub fn next_request(&mut self) -> Option<Request> {
        let run = match self.rest.take() {
            Some(rest) => rest,
            None => self.walk.next_run()?,
        };
        let first = run.first;
        let end = (self.end_of_file)(first).min(first.saturating_add(self.joining.most()));
        let mut piece = self.cut(run, end);
        self.pieces.clear();
        let mut wanted = piece.blocks;
        if let Joining::Coalesced { hole, .. } = self.joining {
            while self.rest.is_none() {
                let Some(next) = self.walk.next_run() else {
                    break;
                };
                if next.first == piece.end() && next.first < end {
                    let more = self.cut(next, end);
                    piece.blocks += more.blocks;
                    wanted += more.blocks;
                } else if next.first > piece.end()
                    && next.first - piece.end() <= hole
                    && next.first < end
                {
                    self.pieces.push(piece);
                    piece = self.cut(next, end);
                    wanted += piece.blocks;
                } else {
                    self.rest = Some(next);
                }
            }
        }
        let span = piece.end() - first;
        self.pieces.push(piece);
        Some(Request {
            first,
            span,
            wanted,
        })
    }

    /// The wanted blocks of the latest request, in pieces without holes.
    #[must_use]
    pub fn pieces(&self) -> &[Run] {
        &self.pieces
    }

    /// The part of a run before `end`; the rest is kept for the next request.
    #[inline]
    fn cut(&mut self, run: Run, end: u64) -> Run {
        let blocks = run.blocks.min(end - run.first);
        if blocks < run.blocks {
            self.rest = Some(Run {
                first: run.first + blocks,
                blocks: run.blocks - blocks,
            });
        }
        Run { blocks, ..run }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::{
        Passes, Pattern, Share,
        tests::{list_of, patterns, wanted},
    };
    use super::*;
    use proptest::prelude::*;

    fn joinings() -> impl Strategy<Value = Joining> {
        prop_oneof![
            Just(Joining::Single),
            (1_u64..50).prop_map(|most| Joining::Run { most }),
            (1_u64..50, 0_u64..5).prop_map(|(most, hole)| Joining::Coalesced { most, hole }),
        ]
    }

    const WHOLE: Share = Share {
        thread: 0,
        threads: 1,
    };

    /// Every file has `file` blocks.
    fn requests(
        pattern: &Pattern,
        blocks: u64,
        seed: u64,
        joining: Joining,
        file: u64,
    ) -> Vec<(Request, Vec<u64>)> {
        let walk = Walk::new(pattern, blocks, seed, WHOLE, Passes::One, u64::MAX);
        let mut requests = Requests::new(walk, joining, |block| (block / file + 1) * file);
        std::iter::from_fn(move || {
            let request = requests.next_request()?;
            Some((
                request,
                requests
                    .pieces()
                    .iter()
                    .flat_map(|piece| piece.first..piece.end())
                    .collect(),
            ))
        })
        .collect()
    }

    /// The model: takes one block after another, and begins a request whenever the definition requires it.
    fn model(
        pattern: &Pattern,
        blocks: u64,
        seed: u64,
        joining: Joining,
        file: u64,
    ) -> Vec<Vec<u64>> {
        let mut walk = Walk::new(pattern, blocks, seed, WHOLE, Passes::One, u64::MAX);
        let mut made: Vec<Vec<u64>> = Vec::new();
        while let Some(run) = walk.next_run() {
            for block in run.first..run.end() {
                let joins = made.last().is_some_and(|request: &Vec<u64>| {
                    let (first, last) = (request[0], request[request.len() - 1]);
                    let (inside, most, hole) = match joining {
                        Joining::Single => (false, 1, 0),
                        Joining::Run { most } => (block > run.first, most, 0),
                        Joining::Coalesced { most, hole } => (true, most, hole),
                    };
                    inside
                        && block > last
                        && block - last - 1 <= hole
                        && block - first < most
                        && block / file == first / file
                });
                if joins {
                    made.last_mut().unwrap().push(block)
                } else {
                    made.push(vec![block])
                }
            }
        }
        made
    }

    proptest! {
        #[test]
        fn requests_are_those_of_the_model(
            (pattern, blocks) in patterns(), seed: u64, joining in joinings(), file in 1_u64..200
        ) {
            let made: Vec<Vec<u64>> =
                requests(&pattern, blocks, seed, joining, file).into_iter().map(|(_, blocks)| blocks).collect();
            prop_assert_eq!(made, model(&pattern, blocks, seed, joining, file));
        }

        #[test]
        fn every_block_is_wanted_once_and_limits_are_kept(
            (pattern, blocks) in patterns(), seed: u64, joining in joinings(), file in 1_u64..200
        ) {
            let mut all = Vec::new();
            for (request, blocks) in requests(&pattern, blocks, seed, joining, file) {
                let last = *blocks.last().unwrap();
                prop_assert_eq!(request.first, blocks[0]);
                prop_assert_eq!(request.span, last - request.first + 1, "a request ends with a wanted block");
                prop_assert_eq!(request.wanted, blocks.len() as u64);
                prop_assert!(request.span <= joining.most());
                prop_assert_eq!(request.first / file, last / file, "a request stays in its file");
                if let Joining::Coalesced { hole, .. } = joining {
                    prop_assert!(blocks.windows(2).all(|pair| pair[1] - pair[0] - 1 <= hole));
                } else {
                    prop_assert_eq!(request.span, request.wanted, "only coalescing reads holes");
                }
                all.extend(blocks);
            }
            all.sort_unstable();
            prop_assert_eq!(all, wanted(&pattern, blocks));
        }

        #[test]
        fn ascending_blocks_are_read_once(
            (pattern, blocks) in patterns(), joining in joinings(), file in 1_u64..200
        ) {
            prop_assume!(!matches!(pattern, Pattern::Random { .. }));
            let made = requests(&pattern, blocks, 0, joining, file);
            prop_assert!(made.windows(2).all(|pair| pair[0].0.first + pair[0].0.span <= pair[1].0.first));
        }

        #[test]
        fn nothing_is_allocated_once_it_runs(
            (pattern, blocks) in patterns(), seed: u64, joining in joinings()
        ) {
            let walk = Walk::new(&pattern, blocks, seed, WHOLE, Passes::One, u64::MAX);
            let mut requests = Requests::new(walk, joining, |_| u64::MAX);
            let capacity = requests.pieces.capacity();
            while requests.next_request().is_some() {}
            prop_assert_eq!(requests.pieces.capacity(), capacity);
        }
    }

    /// The example of the mailing list: B1-B5 and B7-B10 in two requests, or in one with B6 thrown away.
    #[test]
    fn the_threads_example() {
        let list = list_of([1, 2, 3, 4, 5, 7, 8, 9, 10]);
        let made = |hole| {
            requests(
                &list,
                11,
                0,
                Joining::Coalesced { most: 128, hole },
                u64::MAX / 2,
            )
            .into_iter()
            .map(|(request, _)| (request.first, request.span, request.wanted))
            .collect::<Vec<_>>()
        };
        assert_eq!(made(0), [(1, 5, 5), (7, 4, 4)]);
        assert_eq!(made(1), [(1, 10, 9)]);
    }
}
