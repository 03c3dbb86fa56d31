//! io_uring: up to `depth` requests in flight, one buffer each.
//!
//! As PostgreSQL 18 uses it: neither files nor buffers are registered with the kernel, and nothing polls.

use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, opcode, types::Fd};

use super::Task;
use crate::io_engine::{
    Error, Job, Tally, buffer::Buffer, clock::now, file_set::FileSet, policy::Request, stamp,
};

/// Requests per submission. The kernel holds a batch back from the device until its last request is prepared: at depth
/// 64 batches of all free slots cost 7 % of a device's reads, single ones a quarter more CPU.
const BATCH: u32 = 4;

/// The state of a request in flight.
#[derive(Clone, Copy)]
struct Slot {
    request: Request,
    began: u64,
}

pub(super) struct Ring {
    ring: IoUring,
    buffer: Buffer,
    slots: Vec<Slot>,
    free: Vec<u32>,
    block: usize,
    /// Bytes of a slot's buffer.
    room: usize,
}

impl Ring {
    pub(super) fn prepare(job: &Job, files: &FileSet, depth: u32) -> Result<Self, Error> {
        let ring = new_ring(depth).map_err(|source| {
            let way_out = match source.raw_os_error() {
                Some(libc::ENOMEM) => {
                    "use fewer --threads or a lower --depth, or raise the limit on locked memory (ulimit -l), as which rings \
                     count before Linux 5.12"
                }
                Some(libc::EMFILE | libc::ENFILE) => {
                    "use fewer --threads, or raise the limit on open files (ulimit -n)"
                }
                _ => return Error::NoIoUring(source),
            };
            Error::Refused {
                path: files.files()[0].path.clone(),
                action: "io_uring_setup".into(),
                source,
                way_out,
            }
        })?;
        // New in Linux 5.6, as the operations used here, which older kernels refuse like a request that is not aligned.
        if !ring.params().is_feature_rw_cur_pos() {
            let source = std::io::Error::from_raw_os_error(libc::ENOSYS);
            return Err(Error::NoIoUring(source));
        }
        let block = usize::try_from(job.block).expect("Job::check limits buffers");
        let room = block * usize::try_from(job.most_blocks()).expect("Job::check limits buffers");
        let idle = Slot {
            request: Request {
                first: 0,
                span: 0,
                wanted: 0,
            },
            began: 0,
        };
        Ok(Self {
            ring,
            buffer: Buffer::new(room * depth as usize),
            slots: vec![idle; depth as usize],
            free: (0..depth).rev().collect(),
            block,
            room,
        })
    }

    pub(super) fn work(
        &mut self,
        task: &Task<'_>,
        begun: u64,
        deadline: u64,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let mut requests = task.requests();
        let mut going = true;
        let mut pushed = 0_u32;
        let mut result = Ok(());
        let mut time = begun;
        loop {
            while going && !self.free.is_empty() {
                let Some(request) = requests.next_request() else {
                    going = false;
                    break;
                };
                self.push(task, request, time);
                pushed += 1;
                if pushed % BATCH == 0 {
                    // Requests that are not accepted now, for whatever reason, are submitted again below, where errors
                    // count.
                    let _ = self.ring.submit();
                }
            }
            if self.free.len() == self.slots.len() {
                return result;
            }
            // Also after an error: the kernel writes into the buffer until the last request is done.
            if let Err(source) = self.submit_and_wait() {
                // Waiting is no longer possible: leak the buffer, so that its memory stays valid.
                std::mem::forget(std::mem::replace(&mut self.buffer, Buffer::new(0)));
                return Err(task.files.files()[0].refused("io_uring_enter", 0, source));
            }
            time = now();
            if let Err(error) = self.reap(task, time, tally) {
                result = result.and(Err(error));
                going = false;
            }
            if task.job.verify {
                time = now();
            }
            going &= task.goes_on(tally, time, deadline);
        }
    }

    /// Passes a request to the kernel at the next submission.
    #[allow(unsafe_code)]
    #[inline]
    fn push(&mut self, task: &Task<'_>, request: Request, began: u64) {
        let slot = self.free.pop().expect("called with a free slot");
        let index = slot as usize;
        let place = task.files.place(request.first);
        let buffer = &mut self.buffer[index * self.room..][..request.span as usize * self.block];
        let file = Fd(place.file.file.as_raw_fd());
        let length = u32::try_from(buffer.len()).expect("Job::check limits buffers");
        let (entry, began) = if task.job.write {
            stamp::write(buffer, place.offset, task.seed);
            let entry = opcode::Write::new(file, buffer.as_ptr(), length)
                .offset(place.offset)
                .build();
            (entry, now()) // as with pwrite(2), without the time of making its contents
        } else {
            let entry = opcode::Read::new(file, buffer.as_mut_ptr(), length)
                .offset(place.offset)
                .build();
            (entry, began)
        };
        self.slots[index] = Slot { request, began };
        // SAFETY: only this slot uses the buffer until its completion is reaped, `work` does not return before that,
        // and the file is open as long. There are as many entries as slots, so there is a free entry.
        unsafe {
            self.ring
                .submission()
                .push(&entry.user_data(slot.into()))
                .expect("an entry for every slot")
        };
    }

    fn submit_and_wait(&self) -> std::io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Counts completed requests. Takes all of them, even if one has failed; returns the first error.
    fn reap(&mut self, task: &Task<'_>, ended: u64, tally: &mut Tally) -> Result<(), Error> {
        let Self {
            ring,
            buffer,
            slots,
            free,
            block,
            room,
        } = self;
        let mut result = Ok(());
        for completion in ring.completion() {
            let slot = completion.user_data() as u32;
            let Slot { request, began } = slots[slot as usize];
            free.push(slot);
            let length = request.span as usize * *block;
            let place = task.files.place(request.first);
            let done = match usize::try_from(completion.result()) {
                Ok(done) if done == length => {
                    tally.count(ended - began, length as u64);
                    tally.deliver(request);
                    if task.job.verify && !task.job.write {
                        stamp::check(
                            &buffer[slot as usize * *room..][..length],
                            place.file,
                            place.offset,
                        )
                    } else {
                        Ok(())
                    }
                }
                Ok(done) if task.job.write => {
                    let source = std::io::Error::from_raw_os_error(libc::ENOSPC);
                    Err(place
                        .file
                        .refused("write", place.offset + done as u64, source))
                }
                Ok(done) => Err(place.file.short_read(place.offset, done)),
                Err(_) => {
                    let action = if task.job.write { "write" } else { "read" };
                    let source = std::io::Error::from_raw_os_error(-completion.result());
                    Err(place.file.refused(action, place.offset, source))
                }
            };
            result = result.and(done);
        }
        result
    }
}

/// A ring that does no work in interrupts of its own; a plain one on kernels before 6.1.
fn new_ring(depth: u32) -> std::io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(depth)
        .or_else(|error| {
            if error.raw_os_error() == Some(libc::EINVAL) {
                IoUring::new(depth)
            } else {
                Err(error)
            }
        })
}
