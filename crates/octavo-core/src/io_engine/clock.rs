//! Time, read without entering the kernel if the machine's clock source allows it (vDSO).

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds since some point in the past; never goes back.
#[must_use]
#[inline]
pub(super) fn now() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of CPU that this thread has used, in user mode and in the kernel: the sum that getrusage(2) returns for
/// `RUSAGE_THREAD`, to the nanosecond.
#[must_use]
pub(super) fn thread_cpu() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Nanoseconds of CPU that all threads of this process have used, including those that io_uring created in the kernel.
#[must_use]
pub(super) fn process_cpu() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

#[inline]
fn nanoseconds(time: Timespec) -> u64 {
    // Both parts of these clocks are never negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
