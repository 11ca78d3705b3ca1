"""Numbers of the system calls that the sandbox refuses or makes: each kind of machine has its own."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

_REFUSED: Mapping[str, tuple[int, int | None]] = {
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "setpriority": (141, 140),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "prlimit64": (302, 261),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "socket": (41, 198),
    "mmap": (9, 222),
    "fcntl": (72, 25),
    "setsockopt": (54, 208),
    "prctl": (157, 167),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "vmsplice": (278, 75),
    "splice": (275, 76),
    "tee": (276, 77),
    "clone": (56, 220),
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "open_by_handle_at": (304, 265),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "acct": (163, 89),
}
"""On x86-64, and on aarch64, which never had calls without a folder or with coarse times. From 424
on they are alike."""

_MADE: Mapping[str, tuple[int, int | None]] = {
    "capset": (126, 91),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}

REFUSED = frozenset(_REFUSED)
"""Names of the calls that a filter may refuse."""

MACHINE = os.uname().machine
_PLACE, ARCHITECTURE = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}.get(MACHINE, (None, 0))
"""The second is the machine's name to a filter (``linux/audit.h``)."""

CALLS: Mapping[str, int] = {
    name: number
    for name, numbers in (*_REFUSED.items(), *_MADE.items())
    if _PLACE is not None and (number := numbers[_PLACE]) is not None
}
"""This machine's numbers, by name; none on a kind that is not known, where no wall is built."""


def require_known_machine() -> None:
    """Raise OSError on another machine."""
    if not CALLS:
        raise OSError(errno.ENOSYS, f"only for x86-64 and aarch64, not {MACHINE}")
