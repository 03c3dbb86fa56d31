/// A longer gap between accesses is one of the recording, during which no WAL is assumed to be written.
const LONGEST: u64 = 1_000_000;

/// The WAL of a server, as far as it occupies the page cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogSettings {
    /// Bytes per second, without full-page images.
    pub rate: f64,
    /// Bytes of a full-page image.
    pub image: f64,
    /// Bytes of files that are kept: older ones are overwritten (wal_recycle).
    pub kept: u64,
}

/// The amount of WAL that was written.
pub(super) struct Log {
    settings: LogSettings,
    time: Option<u64>,
    images: u64,
    /// Bytes that do not fill a page yet.
    rest: f64,
}

impl Log {
    pub(super) const fn new(settings: LogSettings) -> Self {
        Self {
            settings,
            time: None,
            images: 0,
            rest: 0.0,
        }
    }

    /// The number of pages of the page cache that are kept.
    pub(super) const fn kept(&self, page_size: u64) -> u64 {
        self.settings.kept / page_size
    }

    /// The pages of the page cache that became full since the last call; `time` in microseconds, `images` logged until
    /// then.
    pub(super) fn pages(&mut self, time: u64, images: u64, page_size: u64) -> u64 {
        let before = self.time.replace(time).unwrap_or(time);
        let passed = time.saturating_sub(before).min(LONGEST);
        let more = images.saturating_sub(std::mem::replace(&mut self.images, images));
        self.rest += self.settings.rate * passed as f64 / 1e6 + self.settings.image * more as f64;
        let pages = (self.rest / page_size as f64) as u64;
        self.rest -= (pages * page_size) as f64;
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_with_time_and_images_by_number() {
        let mut log = Log::new(LogSettings {
            rate: 8192.0,
            image: 1024.0,
            kept: 1 << 30,
        });
        assert_eq!(log.pages(5_000_000, 0, 4096), 0, "from the first time on");
        assert_eq!(log.pages(5_750_000, 0, 4096), 1);
        assert_eq!(log.pages(5_750_000, 2, 4096), 1);
        // A recording with a pause of an hour.
        assert_eq!(log.pages(3_600_000_000, 2, 4096), 2);
    }
}
