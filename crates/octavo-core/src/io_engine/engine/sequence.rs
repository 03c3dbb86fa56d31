//! One request after another: pread(2), preadv(2), pwrite(2), posix_fadvise(2).

use std::{
    io::IoSliceMut,
    os::{fd::AsFd as _, unix::fs::FileExt as _},
};

use rustix::{
    fs::{Advice, fadvise},
    io::{pread, preadv, retry_on_intr},
};

use super::Task;
use crate::io_engine::{
    Error, Job, Method, Tally,
    buffer::Buffer,
    clock::now,
    file_set::Place,
    policy::{Request, Requests},
    stamp,
};

pub(super) struct Sequence {
    buffer: Buffer,
    block: usize,
}

impl Sequence {
    pub(super) fn prepare(job: &Job) -> Self {
        let length =
            usize::try_from(job.most_blocks() * job.block).expect("Job::check limits buffers");
        Self {
            buffer: Buffer::new(length),
            block: usize::try_from(job.block).expect("Job::check limits buffers"),
        }
    }

    pub(super) fn work(
        &mut self,
        task: &Task<'_>,
        begun: u64,
        deadline: u64,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        match task.job.method {
            _ if task.job.write => self.write(task, deadline, tally),
            Method::CacheFirst => self.read_cache_first(task, begun, deadline, tally),
            Method::Advised { distance } => self.read(task, Some(distance), begun, deadline, tally),
            Method::Vectored => self.read_vectored(task, begun, deadline, tally),
            Method::Plain | Method::Ring { .. } => self.read(task, None, begun, deadline, tally),
        }
    }

    /// With a `distance`, advises the kernel of requests that many ahead of the one that is read.
    fn read(
        &mut self,
        task: &Task<'_>,
        distance: Option<u64>,
        begun: u64,
        deadline: u64,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let mut requests = task.requests();
        let mut ahead = distance.map(|_| task.requests());
        let mut advise = || {
            ahead
                .as_mut()
                .and_then(Requests::next_request)
                .map_or(Ok(false), |request| {
                    self::advise(task, request, self.block).map(|()| true)
                })
        };
        for _ in 0..distance.unwrap_or(0) {
            // Advising many requests may take longer than the deadline.
            if !advise()? || !task.goes_on(tally, now(), deadline) {
                break;
            }
        }
        let mut began = begun;
        while let Some(request) = requests.next_request() {
            advise()?;
            let place = task.files.place(request.first);
            let length = request.span as usize * self.block;
            read_whole(&place, &mut self.buffer[..length])?;
            let mut ended = now();
            tally.count(ended - began, length as u64);
            tally.deliver(request);
            if task.job.verify {
                stamp::check(&self.buffer[..length], place.file, place.offset)?;
                ended = now();
            }
            if !task.goes_on(tally, ended, deadline) {
                break;
            }
            began = ended;
        }
        Ok(())
    }

    fn read_cache_first(
        &mut self,
        task: &Task<'_>,
        begun: u64,
        deadline: u64,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let mut requests = task.requests();
        let mut began = begun;
        while let Some(request) = requests.next_request() {
            let place = task.files.place(request.first);
            let length = request.span as usize * self.block;
            read_whole(&place, &mut self.buffer[..length])?;
            let mut ended = now();
            tally.count(ended - began, length as u64);
            // A single block has just been read; only blocks of a longer request are read again from the cache.
            let pieces = if request.span > 1 {
                requests.pieces()
            } else {
                &[]
            };
            if task.job.verify && pieces.is_empty() {
                stamp::check(&self.buffer[..length], place.file, place.offset)?;
                ended = now();
            }
            for block in pieces.iter().flat_map(|piece| piece.first..piece.end()) {
                began = ended;
                let offset = place.offset + (block - request.first) * self.block as u64;
                let buffer = &mut self.buffer[..self.block];
                read_whole(&Place { offset, ..place }, buffer)?;
                ended = now();
                tally.count(ended - began, self.block as u64);
                if task.job.verify {
                    stamp::check(buffer, place.file, offset)?;
                    ended = now();
                }
            }
            tally.deliver(request);
            if !task.goes_on(tally, ended, deadline) {
                break;
            }
            began = ended;
        }
        Ok(())
    }

    fn read_vectored(
        &mut self,
        task: &Task<'_>,
        begun: u64,
        deadline: u64,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let mut requests = task.requests();
        // In reverse order, so that neighbours on disk are not neighbours in memory, as in shared buffers.
        let mut slices: Vec<IoSliceMut<'_>> = self
            .buffer
            .chunks_exact_mut(self.block)
            .rev()
            .map(IoSliceMut::new)
            .collect();
        let mut began = begun;
        while let Some(request) = requests.next_request() {
            let Place { file, offset, .. } = task.files.place(request.first);
            let slices = &mut slices[..request.span as usize];
            let length = slices.len() * self.block;
            let read = retry_on_intr(|| preadv(file.file.as_fd(), slices, offset))
                .map_err(|source| file.refused("read", offset, source.into()))?;
            if read < length {
                return Err(file.short_read(offset, read));
            }
            let mut ended = now();
            tally.count(ended - began, length as u64);
            tally.deliver(request);
            if task.job.verify {
                for (slice, number) in slices.iter().zip(0..) {
                    stamp::check(slice, file, offset + number * self.block as u64)?;
                }
                ended = now();
            }
            if !task.goes_on(tally, ended, deadline) {
                break;
            }
            began = ended;
        }
        Ok(())
    }

    fn write(&mut self, task: &Task<'_>, deadline: u64, tally: &mut Tally) -> Result<(), Error> {
        let mut requests = task.requests();
        while let Some(request) = requests.next_request() {
            let place = task.files.place(request.first);
            let buffer = &mut self.buffer[..request.span as usize * self.block];
            stamp::write(buffer, place.offset, task.seed);
            let began = now();
            place
                .file
                .file
                .write_all_at(buffer, place.offset)
                .map_err(|source| place.file.refused("write", place.offset, source))?;
            let ended = now();
            tally.count(ended - began, buffer.len() as u64);
            tally.deliver(request);
            if !task.goes_on(tally, ended, deadline) {
                break;
            }
        }
        Ok(())
    }
}

#[inline]
fn read_whole(place: &Place<'_>, buffer: &mut [u8]) -> Result<(), Error> {
    let read = retry_on_intr(|| pread(place.file.file.as_fd(), &mut *buffer, place.offset))
        .map_err(|source| place.file.refused("read", place.offset, source.into()))?;
    if read < buffer.len() {
        return Err(place.file.short_read(place.offset, read));
    }
    Ok(())
}

#[inline]
fn advise(task: &Task<'_>, request: Request, block: usize) -> Result<(), Error> {
    let Place { file, offset, .. } = task.files.place(request.first);
    let length = std::num::NonZeroU64::new(request.span * block as u64);
    fadvise(file.file.as_fd(), offset, length, Advice::WillNeed)
        .map_err(|source| file.refused("posix_fadvise", offset, source.into()))
}
