use std::{fmt, fs, io, os::linux::fs::MetadataExt as _, path::Path};

/// The kernel's name for a block device: driver (`major`) and instance (`minor`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// The driver; 0 stands for no device at all.
    pub major: u32,
    /// The driver's device or partition.
    pub minor: u32,
}

impl DeviceNumber {
    /// The device of the filesystem that holds `path`: `st_dev` of stat(2), symbolic links
    /// followed.
    ///
    /// # Errors
    ///
    /// Those of stat(2).
    pub fn of_filesystem(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self::from_dev_t(metadata.st_dev()))
    }

    /// Splits a `dev_t` as makedev(3) describes it.
    #[must_use]
    pub fn from_dev_t(dev: libc::dev_t) -> Self {
        Self {
            major: libc::major(dev),
            minor: libc::minor(dev),
        }
    }

    /// Whether the kernel made the number up for a filesystem that is not on one block device of
    /// its own: tmpfs, overlayfs, NFS, and those that pool devices themselves, such as btrfs
    /// (kernel: Documentation/admin-guide/devices.txt, major 0).
    #[must_use]
    pub fn is_anonymous(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn is_shown_as_in_sysfs() {
        let device = DeviceNumber::from_dev_t(libc::makedev(259, 3));
        assert_eq!(device.to_string(), "259:3");
    }

    #[test]
    fn major_zero_is_anonymous() {
        assert!(DeviceNumber::from_dev_t(libc::makedev(0, 45)).is_anonymous());
        assert!(!DeviceNumber::from_dev_t(libc::makedev(8, 0)).is_anonymous());
    }

    proptest! {
        #[test]
        fn dev_t_round_trips(major: u32, minor: u32) {
            let device = DeviceNumber::from_dev_t(libc::makedev(major, minor));
            prop_assert_eq!(device, DeviceNumber { major, minor });
        }
    }
}
