//! libCacheSim's oracleGeneral: a record of 24 bytes per access.

use std::{
    collections::HashMap,
    io::{Read, Write},
};

use super::super::{Access, Error, Kind, Missing, Reader, Stream, Writer};
use super::{each_access, push_access};

/// clock_time, obj_id, obj_size, next_access_vtime: 4, 8, 4 and 8 bytes.
const ORACLE_RECORD: usize = 24;

/// Reads records of 24 bytes. An object is a page; objects have no neighbours, so they are numbered in order of
/// appearance.
///
/// # Errors
/// An incomplete record, too many accesses, or an error in reading or writing.
pub fn read_oracle_general<R: Read, W: Write>(
    mut from: R,
    into: &mut Writer<W>,
) -> Result<(), Error> {
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    let mut record = [0; ORACLE_RECORD];
    for line in 1.. {
        let mut there = 0;
        while there < ORACLE_RECORD {
            match from.read(&mut record[there..])? {
                0 => break,
                more => there += more,
            }
        }
        match there {
            0 => break,
            ORACLE_RECORD => {}
            _ => {
                return Err(Error::Line {
                    line,
                    what: "the last record of 24 bytes is incomplete",
                });
            }
        }
        let seconds = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
        let object = u64::from_le_bytes([
            record[4], record[5], record[6], record[7], record[8], record[9], record[10],
            record[11],
        ]);
        let next = numbers.len() as u64;
        let block = *numbers.entry(object).or_insert(next);
        let access = Access {
            time: u64::from(seconds) * 1_000_000,
            block,
            ..Access::default()
        };
        push_access(into, &access, line)?;
    }
    Ok(())
}

/// Writes a record of 24 bytes for each access that is not a change. The trace is read twice, because a record contains
/// the number of the object's next one; memory: 8 bytes per access and about 40 per page. Returns what is missing.
///
/// # Errors
/// An error in reading or writing.
pub fn write_oracle_general<R: Read, W: Write>(
    mut open: impl FnMut() -> Result<Reader<R>, Error>,
    mut into: W,
) -> Result<Missing, Error> {
    let is_change = |access: &Access| matches!(access.kind, Kind::Change | Kind::FullPageImage);
    let mut last: HashMap<(Stream, u64), usize> = HashMap::new();
    let mut next: Vec<i64> = Vec::new();
    each_access(&mut open()?, |access| {
        if !is_change(&access) {
            let now = next.len();
            if let Some(before) = last.insert((access.stream, access.block), now) {
                next[before] = now as i64;
            }
            next.push(-1);
        }
        Ok(())
    })?;
    drop(last);
    let mut streams: HashMap<Stream, u64> = HashMap::new();
    let mut next = next.into_iter();
    let mut reader = open()?;
    each_access(&mut reader, |access| {
        if is_change(&access) {
            return Ok(());
        }
        let number = streams.len() as u64;
        let stream = *streams.entry(access.stream).or_insert(number);
        let seconds = u32::try_from(access.time / 1_000_000).unwrap_or(u32::MAX);
        into.write_all(&seconds.to_le_bytes())?;
        // Neighbours stay neighbours, and streams stay distinct for blocks below 2^40.
        into.write_all(&(access.block ^ stream << 40).to_le_bytes())?;
        into.write_all(&1_u32.to_le_bytes())?;
        into.write_all(&next.next().unwrap_or(-1).to_le_bytes())?;
        Ok(())
    })
}
