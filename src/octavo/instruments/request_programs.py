"""The BPF programs that count block requests, each at a tracepoint of include/trace/events/block.h.

A request is *started* by a process, and *issued* to the device later, sometimes by a kernel worker; only then, after
merging, is its size final. So `started` records the process under the request's key (device and first sector), and
`issued` counts for that process. A request without a recorded start (an older kernel has no block_io_start; one that
was merged in front has another first sector) counts for the process that issues it. One that the device put back
(`requeued`) is issued twice and counted once.

A device without a queue of its own (device mapper, md, zram) makes no requests: `submitted` counts the submissions to
it.

All have the record in r6 and the key at r10-16: the device (4 bytes), zeros (4), the first sector (8).
"""

from collections.abc import Mapping

from octavo.instruments.bpf import DELETE, LOOKUP, NAME, PID, UPDATE, Jump, Label, assemble, instruction

R0, R1, R2, R3, R4, R6, R7, R8, R9, R10 = 0, 1, 2, 3, 4, 6, 7, 8, 9, 10

# How a request was made: the second half of an owner, and the upper half of a counted kind.
PLAIN, IO_URING, REQUEUED = 0, 1, 2
# The name of io_uring's worker threads (io_uring/io-wq.c).
_RING_WORKER = (int.from_bytes(b"iou-", "little"), int.from_bytes(b"wrk-", "little"))

_SECTOR_BITS = 9
# Flags of an update (include/uapi/linux/bpf.h): BPF_ANY, BPF_NOEXIST.
_ANY, _NO_EXIST = 0, 1

_Parts = list[bytes | Label | Jump]
_LEAVE: _Parts = [Label("leave"), instruction(0xB7, R0), instruction(0x95)]


def started(owners: int, names: int, device: int | None, fields: Mapping[str, int]) -> bytes:
    """At block_io_start: owners[place] = (process, how), names[process] = its name."""
    return assemble([
        *_place(device, fields),
        *_call(PID),
        instruction(0x77, R0, 0, 0, 32),  # the upper half is the process, the lower the thread
        instruction(0x63, R10, R0, -24),
        instruction(0x62, R10, 0, -20, IO_URING),
        instruction(0x61, R1, R6, fields["comm"]),
        instruction(0x61, R2, R6, fields["comm"] + 4),
        Jump(0x55, R1, _RING_WORKER[0], "plain"),
        Jump(0x15, R2, _RING_WORKER[1], "put"),
        Label("plain"),
        instruction(0x62, R10, 0, -20, PLAIN),
        instruction(0x63, R10, R0, -44),  # the process again, as a key
        instruction(0xBF, R1, R10),
        instruction(0x07, R1, 0, 0, -40),
        instruction(0xB7, R2, 0, 0, 16),
        *_call(NAME),
        *_update(names, -44, -40),
        Label("put"),
        *_update(owners, -16, -24),
        *_LEAVE,
    ])  # fmt: skip


def requeued(owners: int, device: int | None, fields: Mapping[str, int]) -> bytes:
    """At block_rq_requeue: marks the place so that the next issue is not counted."""
    return assemble([
        *_place(device, fields),
        instruction(0x62, R10, 0, -24, 0),
        instruction(0x62, R10, 0, -20, REQUEUED),
        *_update(owners, -16, -24),
        *_LEAVE,
    ])  # fmt: skip


def issued(owners: int, counts: int, lost: int, device: int | None, fields: Mapping[str, int]) -> bytes:
    """At block_rq_issue: counts[device, process, size, kind] += 1, or lost[0] += 1 if there is no room. The kind is the
    first two letters of rwbs, with the way in which it was requested in the bits above.
    """
    return assemble([
        *_place(device, fields),
        *_lookup(owners, -16),
        Jump(0x15, R0, 0, "unknown"),
        instruction(0x61, R9, R0, 0),
        instruction(0x61, R8, R0, 4),
        *_map(owners),
        *_address(R2, -16),
        *_call(DELETE),
        Jump(0x15, R8, REQUEUED, "leave"),
        Jump(0x05, 0, 0, "count"),
        Label("unknown"),
        *_call(PID),
        instruction(0xBF, R9, R0),
        instruction(0x77, R9, 0, 0, 32),
        instruction(0xB7, R8, 0, 0, PLAIN),
        Label("count"),
        instruction(0x61, R1, R6, fields["bytes"]),
        instruction(0x63, R10, R1, -24),
        *_counted(counts, lost, fields),
        *_LEAVE,
    ])  # fmt: skip


def submitted(counts: int, lost: int, names: int, device: int | None, fields: Mapping[str, int]) -> bytes:
    """At block_bio_queue, for a device without requests of its own: counts, like `issued`, the bios that a process
    submits to it, before they are split and passed on, and records the process's name."""
    return assemble([
        *_place(device, fields),
        *_call(PID),
        instruction(0xBF, R9, R0),
        instruction(0x77, R9, 0, 0, 32),
        instruction(0x63, R10, R9, -44),
        instruction(0xBF, R1, R10),
        instruction(0x07, R1, 0, 0, -40),
        instruction(0xB7, R2, 0, 0, 16),
        *_call(NAME),
        *_update(names, -44, -40),
        instruction(0x61, R1, R6, fields["nr_sector"]),
        instruction(0x67, R1, 0, 0, _SECTOR_BITS),
        instruction(0x63, R10, R1, -24),
        instruction(0xB7, R8, 0, 0, PLAIN),
        *_counted(counts, lost, fields),
        *_LEAVE,
    ])  # fmt: skip


def _counted(counts: int, lost: int, fields: Mapping[str, int]) -> _Parts:
    """counts[r7 = device, r9 = process, the size at r10-24, the kind] += 1; r8 is how it was requested. If that map is
    full, lost[0] += 1."""
    return [
        instruction(0x63, R10, R7, -32),
        instruction(0x63, R10, R9, -28),
        instruction(0x71, R1, R6, fields["rwbs"]),
        instruction(0x71, R2, R6, fields["rwbs"] + 1),
        instruction(0x67, R2, 0, 0, 8),
        instruction(0x4F, R1, R2),
        instruction(0x67, R8, 0, 0, 16),
        instruction(0x4F, R1, R8),
        instruction(0x63, R10, R1, -20),
        *_lookup(counts, -32),
        Jump(0x55, R0, 0, "add"),
        # Another CPU may be inserting the same key: the second one must not overwrite the first one's count.
        instruction(0x7A, R10, 0, -40, 0),
        *_update(counts, -32, -40, _NO_EXIST),
        *_lookup(counts, -32),
        Jump(0x55, R0, 0, "add"),
        instruction(0x62, R10, 0, -48, 0),
        *_lookup(lost, -48),
        Jump(0x15, R0, 0, "leave"),  # cannot be, but the verifier wants it
        Label("add"),
        instruction(0xB7, R1, 0, 0, 1),
        instruction(0xDB, R0, R1, 0, 0),  # atomic: *(u64 *)r0 += r1
    ]  # fmt: skip


def _place(device: int | None, fields: Mapping[str, int]) -> _Parts:
    """r6 = the record, r7 = its device, the place at r10-16; leaves on any device other than the requested one."""
    found: _Parts = [instruction(0xBF, R6, R1), instruction(0x61, R7, R6, fields["dev"])]
    if device is not None:
        found.append(Jump(0x56, R7, device, "leave"))
    return [
        *found,
        instruction(0x63, R10, R7, -16),
        instruction(0x62, R10, 0, -12, 0),
        instruction(0x79, R1, R6, fields["sector"]),
        instruction(0x7B, R10, R1, -8),
    ]


def _map(descriptor: int) -> _Parts:
    """r1 = the map (BPF_PSEUDO_MAP_FD), in two halves."""
    return [instruction(0x18, R1, 1, 0, descriptor), instruction(0)]


def _address(register: int, offset: int) -> _Parts:
    return [instruction(0xBF, register, R10), instruction(0x07, register, 0, 0, offset)]


def _call(function: int) -> _Parts:
    return [instruction(0x85, 0, 0, 0, function)]


def _lookup(map_descriptor: int, key: int) -> _Parts:
    return [*_map(map_descriptor), *_address(R2, key), *_call(LOOKUP)]


def _update(map_descriptor: int, key: int, value: int, flags: int = _ANY) -> _Parts:
    how = instruction(0xB7, R4, 0, 0, flags)
    return [*_map(map_descriptor), *_address(R2, key), *_address(R3, value), how, *_call(UPDATE)]
