use crate::simulate::buffers::{BufferManager, Looked};

/// The number of rounds over which it averages (smoothing_samples).
const SAMPLES: f64 = 16.0;
/// The most rounds that are made up for after a pause; by then nothing is left to do.
const MOST_ROUNDS: u64 = 20;

/// bgwriter_delay in microseconds, bgwriter_lru_maxpages and bgwriter_lru_multiplier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriterSettings {
    /// Between two rounds, on the trace's clock.
    pub delay: u64,
    /// The number of rounds in which it passes all buffers at least: scan_whole_pool_milliseconds divided by the
    /// configured bgwriter_delay, however long a round really takes.
    pub rounds: f64,
    /// Pages per round; 0 for no background writer.
    pub most: u64,
    /// The factor between recent demand and the number of buffers that are cleaned.
    pub multiplier: f64,
    /// The number of buffers that a buffer of a miniature represents; 1 without a miniature.
    pub scale: u64,
}

/// PostgreSQL's background writer: BgBufferSync of bufmgr.c (15 to 18). It writes dirty pages that the clock sweep will
/// reach soon and that nobody has used since it passed.
pub struct BackgroundWriter {
    settings: WriterSettings,
    next_round: u64,
    /// None before the first round.
    before: Option<(u64, u64)>,
    /// Buffers that the clock sweep and the background writer have passed, in all rounds of the pool.
    next: u64,
    /// Buffers that the sweep passes per allocation.
    density: f64,
    allocations: f64,
    /// Pages that a miniature wrote above the limit of a round, which are deducted from the next one.
    beyond: u64,
}

impl BackgroundWriter {
    /// A background writer that has not run yet.
    #[must_use]
    pub const fn new(settings: WriterSettings) -> Self {
        Self {
            settings,
            next_round: 0,
            before: None,
            next: 0,
            density: 10.0,
            allocations: 0.0,
            beyond: 0,
        }
    }

    /// Makes the rounds that are due at a time in microseconds; `write` gets each page that is written.
    pub(super) fn run(
        &mut self,
        time: u64,
        buffers: &mut BufferManager,
        write: &mut impl FnMut(u32),
    ) {
        if self.settings.most == 0 || time < self.next_round {
            return;
        }
        let delay = self.settings.delay.max(1);
        let due = ((time - self.next_round) / delay).saturating_add(1);
        for _ in 0..due.min(MOST_ROUNDS) {
            self.round(buffers, write);
        }
        self.next_round = self.next_round.saturating_add(due.saturating_mul(delay));
    }

    fn round(&mut self, buffers: &mut BufferManager, write: &mut impl FnMut(u32)) {
        let (count, scale) = (buffers.buffers() as u64, self.settings.scale);
        let (hand, allocations) = buffers.sweep();
        let (moved, recent) = self.before.map_or((0, 0), |(hand_then, then)| {
            (hand - hand_then, allocations - then)
        });
        if self.before.is_none() || self.next < hand {
            self.next = hand; // behind the sweep, or not started
        }
        self.before = Some((hand, allocations));
        let to_lap = (hand + count).saturating_sub(self.next);
        if moved > 0 && recent > 0 {
            self.density += (moved as f64 / recent as f64 - self.density) / SAMPLES;
        }
        // From here on the unit is buffers of a whole server.
        let each = scale as f64;
        let recent = recent as f64 * each;
        let reusable_ahead = (count - to_lap) as f64 * each / self.density;
        if self.allocations <= recent {
            self.allocations = recent;
        } else {
            self.allocations += (recent - self.allocations) / SAMPLES;
        }
        let mut upcoming = (self.allocations * self.settings.multiplier).floor();
        if upcoming == 0.0 {
            self.allocations = 0.0;
        }
        let least = (count as f64 * each / self.settings.rounds.max(1.0)).floor();
        upcoming = upcoming.max(least + reusable_ahead);
        let (mut left, mut written, mut reusable) = (to_lap, self.beyond, reusable_ahead);
        while left > 0 && reusable < upcoming && written < self.settings.most {
            let place = self.next % count;
            if place >= buffers.used() as u64 {
                // None of the following buffers was ever used: all are reusable, however many there are.
                let wanted = ((upcoming - reusable) / each).ceil() as u64;
                let many = wanted.min(left).min(count - place).max(1);
                self.next += many;
                left -= many;
                reusable += many as f64 * each;
                continue;
            }
            let looked = buffers.clean(place as usize);
            self.next += 1;
            left -= 1;
            match looked {
                Looked::Written(page) => {
                    write(page);
                    reusable += each;
                    written += scale;
                }
                Looked::Reusable => reusable += each,
                Looked::Used => {}
            }
        }
        self.beyond = written.saturating_sub(self.settings.most);
        let (passed, found) = (to_lap - left, reusable - reusable_ahead);
        if passed > 0 && found > 0.0 {
            self.density += (passed as f64 * each / found - self.density) / SAMPLES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Rings;

    const CHANGE: u8 = 2;

    fn dirty(buffers: u64, pages: u32) -> BufferManager {
        let mut manager = BufferManager::new(buffers * 8192, 8192, Rings::default(), None);
        for page in 0..pages {
            manager.access(page, 0, 0, 0, 0);
            manager.access(page, 0, 0, CHANGE, 0);
        }
        manager
    }

    fn writer(most: u64) -> BackgroundWriter {
        BackgroundWriter::new(WriterSettings {
            delay: 200_000,
            rounds: 600.0,
            most,
            multiplier: 2.0,
            scale: 1,
        })
    }

    fn rounds(
        writer: &mut BackgroundWriter,
        manager: &mut BufferManager,
        times: impl Iterator<Item = u64>,
    ) -> Vec<u32> {
        let mut written = Vec::new();
        for time in times {
            writer.run(time, manager, &mut |page| written.push(page));
        }
        written
    }

    #[test]
    fn used_pages_are_left_alone() {
        let mut manager = dirty(1000, 1000);
        let found = rounds(
            &mut writer(100),
            &mut manager,
            (0..50).map(|turn| turn * 200_000),
        );
        assert!(found.is_empty());
    }

    #[test]
    fn pages_that_the_sweep_has_passed_are_written_before_it_comes_again() {
        let mut manager = dirty(1000, 1000);
        // One more page: the hand makes one round, and all usage counts are 0 then.
        manager.access(5000, 0, 0, 0, 0);
        let mut one = writer(100);
        let found = rounds(&mut one, &mut manager, (0..1).map(|turn| turn * 200_000));
        assert!(found.len() <= 100);
        let mut all = found;
        all.extend(rounds(
            &mut one,
            &mut manager,
            (1..1100).map(|turn| turn * 200_000),
        ));
        // A round has at least one page, so that it passes the whole pool in about two minutes in any case.
        assert_eq!(all.len(), 999);
        let mut distinct = all.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 999);
        assert_eq!(manager.counts().writer_writes, 999);
        for page in 6000..6500 {
            manager.access(page, 0, 0, 0, 0);
        }
        assert_eq!(manager.counts().dirty_evictions, 1);
    }

    #[test]
    fn a_round_passes_its_part_of_the_pool_however_much_of_the_trace_is_in_it() {
        for delay in [20_000, 200_000, 2_000_000] {
            let mut manager = dirty(1200, 1200);
            manager.access(5000, 0, 0, 0, 0);
            let mut one = BackgroundWriter::new(WriterSettings {
                delay,
                ..writer(100).settings
            });
            let found = rounds(&mut one, &mut manager, (0..50).map(|turn| turn * delay));
            assert_eq!(found.len(), 50 * 2, "{delay}");
        }
    }

    #[test]
    fn a_round_writes_no_more_than_it_may() {
        let mut manager = dirty(1000, 1000);
        manager.access(5000, 0, 0, 0, 0);
        let mut one = writer(3);
        for turn in 0..40 {
            let found = rounds(&mut one, &mut manager, std::iter::once(turn * 200_000));
            assert!(found.len() <= 3);
        }
        assert!(rounds(&mut writer(0), &mut manager, 0..10).is_empty());
    }
}
