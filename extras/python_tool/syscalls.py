"""A seccomp filter that lets a program start threads but no processes."""

from __future__ import annotations

import errno
import os
import platform
import struct
from typing import NamedTuple

LOAD, EQUAL, AT_LEAST, SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
CLONE_THREAD = 0x00010000
NUMBER_OFFSET, ARCHITECTURE_OFFSET, FIRST_ARGUMENT_OFFSET = (
    0,
    4,
    16,
)  # offsets in `struct seccomp_data`


class SyscallTable(NamedTuple):
    """The system call numbers of an architecture (include/uapi/linux/audit.h and the tables of
    system calls): `refused_calls` are calls that start processes, use memory that no limit counts,
    or serve debuggers and administrators. Numbers from `foreign_start` on belong to another calling
    convention."""

    architecture: int
    clone: int
    clone3: int
    refused_calls: tuple[int, ...]
    foreign_start: int | None


# fork, vfork; memfd_create, shmget, io_uring_setup; ptrace, userfaultfd, bpf, perf_event_open,
# add_key, keyctl, unshare, setns, mount
SYSCALL_TABLES = {
    "x86_64": SyscallTable(
        0xC000003E,
        56,
        435,
        (57, 58, 319, 29, 425, 101, 323, 321, 298, 248, 250, 272, 308, 165),
        0x40000000,
    ),
    "aarch64": SyscallTable(
        0xC00000B7, 220, 435, (279, 194, 425, 117, 282, 280, 241, 217, 219, 97, 268, 40), None
    ),
}


def make_no_process_filter() -> bytes | None:
    """Return a filter that refuses new processes, as a BPF program; None for a processor that is
    not in `SYSCALL_TABLES`.

    The refused calls, and `clone` without CLONE_THREAD, fail with EPERM; `clone3`, whose flags a
    filter cannot read, fails with ENOSYS, after which libc falls back to `clone`.
    """
    calls = SYSCALL_TABLES.get(platform.machine())
    if calls is None:
        return None
    forbidden, unknown = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
    code = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        (EQUAL, 1, 0, calls.architecture),
        (RETURN, 0, 0, KILL),
    ]
    code += [(LOAD, 0, 0, NUMBER_OFFSET)]
    if calls.foreign_start is not None:
        code += [(AT_LEAST, 0, 1, calls.foreign_start), (RETURN, 0, 0, forbidden)]
    for number in calls.refused_calls:
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, forbidden)]
    code += [(EQUAL, 0, 1, calls.clone3), (RETURN, 0, 0, unknown)]
    code += [(EQUAL, 1, 0, calls.clone), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, FIRST_ARGUMENT_OFFSET)]
    code += [(SET, 1, 0, CLONE_THREAD), (RETURN, 0, 0, forbidden), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in code)


def open_filter(program: bytes) -> int:
    """Write the filter to a file in memory, and return its descriptor, positioned at the start."""
    descriptor = os.memfd_create("filter", 0)
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
