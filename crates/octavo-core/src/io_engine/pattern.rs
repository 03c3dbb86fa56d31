//! The order in which blocks are visited: runs of consecutive blocks, each a function of its position in the pass.

use std::sync::Arc;

use super::{Error, Permutation};

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block, counted from the beginning of the first file.
    pub first: u64,
    /// The number of blocks.
    pub blocks: u64,
}

impl Run {
    /// The block after the last one.
    #[must_use]
    pub fn end(self) -> u64 {
        self.first + self.blocks
    }
}

/// Which blocks are visited, and in which order. No pattern visits a block twice in one pass.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// From the first to the last, in runs of this many.
    Sequential {
        /// Blocks per run.
        run: u64,
    },
    /// Every run of this many blocks once, in a random order, like a bitmap heap scan of a table with clustered
    /// matches; a run begins at a multiple of its length.
    Random {
        /// Blocks per run; 1 for single random blocks.
        run: u64,
    },
    /// The first blocks of each stride, in order.
    Strided {
        /// Blocks per run.
        run: u64,
        /// The distance from the beginning of a run to that of the next one, in blocks.
        stride: u64,
    },
    /// These runs, in this order.
    List(Arc<[Run]>),
}

impl Pattern {
    /// A list of runs; consecutive ones are joined into one run.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if there is no block.
    pub fn of_list(list: impl IntoIterator<Item = Run>) -> Result<Self, Error> {
        let mut runs: Vec<Run> = Vec::new();
        for next in list {
            match runs.last_mut() {
                Some(run) if run.end() == next.first => run.blocks += next.blocks,
                _ => runs.push(next),
            }
        }
        if runs.is_empty() {
            return Err(Error::Parameter(
                "the block list is empty; name at least one block".into(),
            ));
        }
        Ok(Self::List(runs.into()))
    }

    /// Blocks of the longest run.
    #[must_use]
    pub fn longest_run(&self) -> u64 {
        match self {
            Self::Sequential { run } | Self::Random { run } | Self::Strided { run, .. } => *run,
            Self::List(runs) => runs.iter().map(|run| run.blocks).max().unwrap_or_default(),
        }
    }

    /// Checks whether this pattern can visit that many blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] with the reason.
    pub fn check(&self, blocks: u64) -> Result<(), Error> {
        match self {
            Self::Sequential { run: 0 }
            | Self::Random { run: 0 }
            | Self::Strided { run: 0, .. } => {
                Err(Error::Parameter("a run has at least one block".into()))
            }
            Self::Strided { run, stride } if stride < run => Err(Error::Parameter(format!(
                "a stride of {stride} blocks is shorter than its run of {run}; make the stride longer or the run shorter"
            ))),
            Self::List(runs) => match runs.iter().find(|run| run.end() > blocks) {
                Some(run) => Err(Error::Parameter(format!(
                    "the block list names block {}, and there are {blocks} blocks; is the block size the one that \
                     the list was made for?",
                    run.end() - 1
                ))),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// One pass over all blocks of a pattern.
#[derive(Clone, Debug)]
pub struct Pass<'a> {
    pattern: &'a Pattern,
    blocks: u64,
    runs: u64,
    order: Permutation,
}

impl<'a> Pass<'a> {
    /// A pass over this many blocks; the seed determines the order of random ones.
    #[must_use]
    pub fn new(pattern: &'a Pattern, blocks: u64, seed: u64) -> Self {
        let runs = match pattern {
            Pattern::Sequential { run } | Pattern::Random { run } => blocks.div_ceil(*run),
            Pattern::Strided { stride, .. } => blocks.div_ceil(*stride),
            Pattern::List(runs) => runs.len() as u64,
        };
        Self {
            pattern,
            blocks,
            runs,
            order: Permutation::new(runs, seed),
        }
    }

    /// The number of runs in a pass.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// The run at this position of the pass; `place` is below [`runs`](Self::runs).
    #[must_use]
    #[inline]
    pub fn run_at(&self, place: u64) -> Run {
        match self.pattern {
            Pattern::Sequential { run } => self.cut(place * run, *run),
            Pattern::Random { run } => self.cut(self.order.at(place) * run, *run),
            Pattern::Strided { run, stride } => self.cut(place * stride, *run),
            Pattern::List(runs) => runs[usize::try_from(place).expect("a place in memory")],
        }
    }

    fn cut(&self, first: u64, run: u64) -> Run {
        Run {
            first,
            blocks: run.min(self.blocks - first),
        }
    }
}

/// The runs that one of several threads visits: an equal share of each pass, up to a limit of blocks.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    pass: Pass<'a>,
    seed: u64,
    place: u64,
    end: u64,
    share: Share,
    passes: Passes,
    blocks_left: u64,
}

/// A thread's number, and the number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// From 0.
    pub thread: u64,
    /// At least 1.
    pub threads: u64,
}

impl Share {
    /// This thread's part of `0..n`; the parts of all threads together are the whole.
    #[must_use]
    pub fn of(self, n: u64) -> std::ops::Range<u64> {
        let until =
            |thread: u64| (u128::from(n) * u128::from(thread) / u128::from(self.threads)) as u64;
        until(self.thread)..until(self.thread + 1)
    }
}

/// How many passes a walk makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// One, so that the walk finds nothing in the page cache that it has itself put there.
    One,
    /// Unlimited, random patterns in another order each time.
    Endless,
}

impl<'a> Walk<'a> {
    /// A thread's walk of at most `most_blocks` blocks.
    #[must_use]
    pub fn new(
        pattern: &'a Pattern,
        blocks: u64,
        seed: u64,
        share: Share,
        passes: Passes,
        most_blocks: u64,
    ) -> Self {
        let pass = Pass::new(pattern, blocks, seed);
        let range = share.of(pass.runs());
        Self {
            pass,
            seed,
            place: range.start,
            end: range.end,
            share,
            passes,
            blocks_left: most_blocks,
        }
    }

    /// The next run, if there is one.
    #[inline]
    pub fn next_run(&mut self) -> Option<Run> {
        if self.place == self.end && !self.begin_again() {
            return None;
        }
        if self.blocks_left == 0 {
            return None;
        }
        let mut run = self.pass.run_at(self.place);
        self.place += 1;
        run.blocks = run.blocks.min(self.blocks_left);
        self.blocks_left -= run.blocks;
        Some(run)
    }

    #[cold]
    fn begin_again(&mut self) -> bool {
        let range = self.share.of(self.pass.runs());
        if self.passes == Passes::One || range.is_empty() {
            return false;
        }
        self.seed = self.seed.wrapping_add(1);
        self.pass = Pass::new(self.pass.pattern, self.pass.blocks, self.seed);
        self.place = range.start;
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any pattern over any number of blocks; lists ascend with gaps.
    pub(crate) fn patterns() -> impl Strategy<Value = (Pattern, u64)> {
        let run = 1_u64..40;
        prop_oneof![
            (run.clone(), 1_u64..500)
                .prop_map(|(run, blocks)| (Pattern::Sequential { run }, blocks)),
            (run.clone(), 1_u64..500).prop_map(|(run, blocks)| (Pattern::Random { run }, blocks)),
            (run, 0_u64..40, 1_u64..500).prop_map(|(run, gap, blocks)| (
                Pattern::Strided {
                    run,
                    stride: run + gap
                },
                blocks
            )),
            proptest::collection::vec(1_u64..6, 1..200).prop_map(|gaps| {
                let list: Vec<u64> = gaps
                    .iter()
                    .scan(0, |at, gap| {
                        *at += gap;
                        Some(*at - 1)
                    })
                    .collect();
                let blocks = list.last().unwrap() + 1;
                (list_of(list), blocks)
            }),
        ]
    }

    pub(crate) fn list_of(blocks: impl IntoIterator<Item = u64>) -> Pattern {
        Pattern::of_list(blocks.into_iter().map(|first| Run { first, blocks: 1 })).unwrap()
    }

    /// The blocks that a pattern should visit, from its definition and not from its code.
    pub(crate) fn wanted(pattern: &Pattern, blocks: u64) -> Vec<u64> {
        match pattern {
            Pattern::Sequential { .. } | Pattern::Random { .. } => (0..blocks).collect(),
            Pattern::Strided { run, stride } => {
                (0..blocks).filter(|block| block % stride < *run).collect()
            }
            Pattern::List(runs) => runs.iter().flat_map(|run| run.first..run.end()).collect(),
        }
    }

    fn visited(walk: &mut Walk<'_>) -> Vec<u64> {
        std::iter::from_fn(|| walk.next_run())
            .flat_map(|run| run.first..run.end())
            .collect()
    }

    proptest! {
        #[test]
        fn all_threads_together_visit_every_block_once(
            (pattern, blocks) in patterns(), seed: u64, threads in 1_u64..7
        ) {
            let mut all: Vec<u64> = (0..threads)
                .flat_map(|thread| {
                    let share = Share { thread, threads };
                    visited(&mut Walk::new(&pattern, blocks, seed, share, Passes::One, u64::MAX))
                })
                .collect();
            all.sort_unstable();
            prop_assert_eq!(all, wanted(&pattern, blocks));
        }

        #[test]
        fn an_endless_walk_keeps_the_limit((pattern, blocks) in patterns(), seed: u64, limit in 0_u64..2000) {
            let share = Share { thread: 0, threads: 1 };
            let all = visited(&mut Walk::new(&pattern, blocks, seed, share, Passes::Endless, limit));
            prop_assert_eq!(all.len() as u64, limit);
        }
    }

    #[test]
    fn more_threads_than_runs_leave_some_without_work() {
        let pattern = Pattern::Sequential { run: 8 };
        let share = Share {
            thread: 0,
            threads: 4,
        };
        let mut walk = Walk::new(&pattern, 8, 0, share, Passes::Endless, u64::MAX);
        assert_eq!(walk.next_run(), None);
    }

    #[test]
    fn a_list_is_taken_in_runs() {
        let Pattern::List(runs) = list_of([1, 2, 3, 4, 5, 7, 8, 9, 10]) else {
            unreachable!()
        };
        assert_eq!(
            *runs,
            [
                Run {
                    first: 1,
                    blocks: 5
                },
                Run {
                    first: 7,
                    blocks: 4
                }
            ]
        );
    }

    #[test]
    fn what_cannot_be_visited_is_refused() {
        assert!(Pattern::of_list([]).is_err());
        assert!(
            list_of([3, 10])
                .check(10)
                .unwrap_err()
                .to_string()
                .contains("block 10")
        );
        assert!(Pattern::Strided { run: 4, stride: 3 }.check(10).is_err());
        assert!(Pattern::Random { run: 0 }.check(10).is_err());
    }
}
