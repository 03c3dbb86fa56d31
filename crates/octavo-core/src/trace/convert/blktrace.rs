//! The output of blkparse, which prints what blktrace recorded.

use std::io::{BufRead, Write};

use super::super::{Access, Error, Kind, Stream, Writer};
use super::{Import, each_line, number, push_request};

/// Bytes of a sector in the kernel's unit, whatever the device's sector size.
const SECTOR: u64 = 512;

/// Reads the output of blkparse: requests when they are queued (action Q). Each device is a stream, each process a
/// backend.
///
/// # Errors
/// An invalid line of a request, or an error in reading or writing. Other lines (the summary) are ignored.
pub fn read_blktrace<R: BufRead, W: Write>(
    from: R,
    into: &mut Writer<W>,
    import: Import,
) -> Result<(), Error> {
    each_line(from, |line, text| {
        let mut words = text.split_ascii_whitespace();
        // major,minor cpu sequence seconds pid action what sector + sectors [command]
        let Some((major, minor)) = words.next().and_then(|device| device.split_once(',')) else {
            return Ok(());
        };
        let (Ok(major), Ok(minor)) = (major.parse::<u32>(), minor.parse::<u32>()) else {
            return Ok(());
        };
        let (time, pid) = (words.nth(2), words.next());
        let (action, what) = (words.next(), words.next().unwrap_or(""));
        if action != Some("Q") || !what.contains(['R', 'W']) {
            return Ok(());
        }
        let seconds: f64 = number(time, line, "time is not a number")?;
        let (sector, plus) = (words.next(), words.next());
        if plus != Some("+") {
            return Ok(()); // without data, for example a flush
        }
        let sector: u64 = number(sector, line, "sector is not a number")?;
        let sectors: u64 = number(words.next(), line, "length is not a number")?;
        let access = Access {
            time: (seconds * 1e6) as u64,
            backend: number(pid, line, "process is not a number")?,
            stream: Stream {
                space: major,
                database: minor,
                ..Stream::default()
            },
            kind: if what.contains('W') {
                Kind::Extend
            } else {
                Kind::Read
            },
            ..Access::default()
        };
        push_request(
            into,
            access,
            sector.saturating_mul(SECTOR),
            sectors.saturating_mul(SECTOR),
            import,
            line,
        )
    })
}
