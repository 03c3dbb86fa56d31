//! How much a block device has read and written, as the kernel counts it.
//!
//! PostgreSQL counts the pages that it requests. Only the block layer knows what reached the
//! device: after the page cache, readahead and the merging of requests, and including the
//! filesystem's own metadata and journal. The difference between two [`statistics_of`] of the same
//! path, taken before and after some work, is that work's device I/O plus that of all other users
//! of the same partition in the meantime.

mod device_number;
mod diskstats;
mod error;

use std::{fs, path::Path};

pub use device_number::DeviceNumber;
pub use diskstats::{
    DeviceStatistics, DiscardStatistics, FlushStatistics, MalformedLine, MalformedReason,
    SECTOR_BYTES, parse,
};
pub use error::Error;

/// Where Linux publishes the counters of every block device.
pub const DISKSTATS: &str = "/proc/diskstats";

/// The counters of the partition (or whole disk, or device-mapper volume) that contains the
/// filesystem of `path`.
///
/// # Errors
///
/// [`Error`] with the step that failed and how to resolve it.
pub fn statistics_of(path: &Path) -> Result<DeviceStatistics, Error> {
    let device = block_device_of(path)?;
    let text = fs::read_to_string(DISKSTATS).map_err(Error::UnreadableStatistics)?;
    parse(&text)?
        .into_iter()
        .find(|statistics| statistics.device == device)
        .ok_or_else(|| Error::NotListed {
            path: path.to_owned(),
            device,
        })
}

/// The number of the block device below the filesystem of `path`.
fn block_device_of(path: &Path) -> Result<DeviceNumber, Error> {
    let device = DeviceNumber::of_filesystem(path).map_err(|source| Error::path(path, source))?;
    if device.is_anonymous() {
        return Err(Error::NoBlockDevice {
            path: path.to_owned(),
            device,
        });
    }
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_path_is_named() {
        let error = statistics_of(Path::new("/no/such/directory")).unwrap_err();
        assert!(matches!(error, Error::NoSuchPath { .. }), "{error:?}");
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
    }

    #[test]
    fn a_path_below_a_file_is_no_missing_path() {
        let error = statistics_of(Path::new("/proc/self/status/below")).unwrap_err();
        assert!(matches!(error, Error::UnreadablePath { .. }), "{error:?}");
    }

    #[test]
    fn procfs_has_no_block_device() {
        let error = statistics_of(Path::new("/proc")).unwrap_err();
        assert!(matches!(error, Error::NoBlockDevice { .. }), "{error:?}");
        assert!(error.to_string().contains("ext4 or XFS"), "{error}");
    }

    /// Holds wherever the tests run: on a disk it returns the counters, and in a container on
    /// overlayfs, or one that hides its host's disks, the reason why there are none.
    #[test]
    fn the_root_directory_has_statistics_or_a_reason() {
        let root = Path::new("/");
        match statistics_of(root) {
            Ok(statistics) => {
                assert_eq!(
                    statistics.device,
                    DeviceNumber::of_filesystem(root).unwrap()
                );
            }
            Err(Error::NoBlockDevice { .. } | Error::NotListed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn this_kernel_writes_what_the_parser_reads() {
        let text = fs::read_to_string(DISKSTATS).unwrap();
        let devices = parse(&text).unwrap();
        assert_eq!(devices.len(), text.lines().count());
    }
}
