"""The system calls that nothing in a sandbox may make: a classic BPF program, made for `bwrap`.

A sandbox has no capability and no user namespace to gain one in, so most of these would be refused
anyway. What is closed here is the code behind them, where the kernel's own bugs are found, and
what would be left if one of the other walls fell. The choice is that of Docker's default profile
for a process without capabilities; `ptrace` is open there and here, for debuggers: it reaches a
sandbox's own processes only, and not the supervisor, which is not dumpable.

The numbers are Linux's: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/
unistd.h. From 424 on they are the same on every architecture.
"""

import platform
import socket
import struct
from collections.abc import Iterable
from errno import ENOSYS, EPERM

__all__ = ["seccomp_program"]

_DENIED: dict[str, tuple[int | None, int | None]] = {  # (x86_64, aarch64)
    "create_module": (174, None),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "iopl": (172, None),
    "ioperm": (173, None),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kcmp": (312, 272),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pidfd_getfd": (438, 438),
    "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443),
    "set_mempolicy_home_node": (450, 450),
    "open_tree_attr": (467, 467),
}
_CLONE3 = 435
_NEWER_THAN_KNOWN = 470  # Linux 6.17 has 469: what this table's author has not seen does not exist

# What of a call's arguments is looked at: (x86_64, aarch64) numbers.
_UNSHARE, _CLONE, _PERSONALITY = (272, 97), (56, 220), (135, 92)
_IOCTL, _SOCKET, _SOCKETPAIR = (16, 29), (41, 198), (53, 199)

_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET
_PERSONALITIES = (0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, 32-bit names, and asking
_INPUT_FORGERIES = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
_AF_NETLINK, _NETLINK_ROUTE = 16, 0

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # where they are in struct seccomp_data
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000  # the bit that says "32-bit pointers" in a number on x86_64
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

type _Instruction = tuple[int, int, int, int]
"""(code, instructions skipped if true, if false, value)"""


def seccomp_program() -> bytes | None:
    """The filter for this machine, as `bwrap --seccomp` reads it; None if it is not known here.

    A program of another architecture is killed. What is denied answers EPERM, and `clone3`, whose
    flags are behind a pointer, ENOSYS, so that the C library falls back to `clone`.
    """
    machine = platform.machine()
    if machine not in _AUDIT_ARCH:
        return None
    return b"".join(struct.pack("HBBI", *each) for each in _program(machine))


def _program(machine: str) -> list[_Instruction]:
    column = list(_AUDIT_ARCH).index(machine)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_ANSWER, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_if(_ANY_BIT, _X32, _refuse()),
        *_if(_AT_LEAST, _NEWER_THAN_KNOWN, _refuse(ENOSYS)),
        *_if(_EQUAL, _CLONE3, _refuse(ENOSYS)),
    ]
    for numbers in _DENIED.values():
        if (number := numbers[column]) is not None:
            program += _if(_EQUAL, number, _refuse())
    namespaces = [_argument(0), *_if(_ANY_BIT, _NEW_NAMESPACES, _refuse()), _allow()]
    for numbers, block in (
        (_UNSHARE, namespaces),
        (_CLONE, namespaces),
        (_PERSONALITY, [_argument(0), *_each(_PERSONALITIES, [_allow()]), *_refuse()]),
        (_IOCTL, [_argument(1), *_each(_INPUT_FORGERIES, _refuse()), _allow()]),
        (_SOCKET, _only_known_sockets()),
        (_SOCKETPAIR, _only_known_sockets()),
    ):
        program += _if(_EQUAL, numbers[column], block)
    return [*program, _allow()]


def _only_known_sockets() -> list[_Instruction]:
    """Unix, IP, and of netlink what lists the network's interfaces."""
    route = [_argument(2), *_if(_EQUAL, _NETLINK_ROUTE, [_allow()]), *_refuse()]
    known = _each(_FAMILIES, [_allow()])
    return [_argument(0), *known, *_if(_EQUAL, _AF_NETLINK, route), *_refuse()]


def _if(test: int, value: int, then: list[_Instruction]) -> list[_Instruction]:
    """`then` where the test is true; where it is not, it is passed over."""
    return [(test, 0, len(then), value), *then]


def _each(values: Iterable[int], then: list[_Instruction]) -> list[_Instruction]:
    return [each for value in values for each in _if(_EQUAL, value, then)]


def _argument(index: int) -> _Instruction:
    """Loads the low half of an argument, which is all that the kernel itself takes of these."""
    return (_LOAD, 0, 0, 16 + 8 * index)


def _refuse(error: int = EPERM) -> list[_Instruction]:
    return [(_ANSWER, 0, 0, _ERRNO | error)]


def _allow() -> _Instruction:
    return (_ANSWER, 0, 0, _ALLOW)
