"""Folders in memory, of a size that the kernel keeps, in mounts that only the keeper and what it starts can see.

With the last of those processes the folders are gone, however it ended.
"""

from __future__ import annotations

import errno
import os

from mlbench.toolkit.sandbox import linux
from mlbench.toolkit.sandbox.job import is_root
from mlbench.toolkit.sandbox.namespaces import leave_users
from mlbench.toolkit.sandbox.outcome import SandboxLimits

_FLAGS = linux.MS_NOSUID | linux.MS_NODEV
_FIRST_BYTES = 64 << 20
"""For the files that are put in before the first program runs."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FEWEST_ENTRIES, _MOST_ENTRIES = 1024, 1 << 16


def leave_mounts() -> None:
    """Leave the machine's mounts for a copy; any user but root leaves its users too, which is what allows it.

    Raises:
        OSError: the kernel refuses.
    """
    if is_root():
        linux.unshare(linux.CLONE_NEWNS)
    else:
        leave_users(linux.CLONE_NEWNS)
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)


def make(folder: str) -> None:
    """Put a folder in memory over this one, which is empty; where this one is removed, the other goes too."""
    linux.mount("tmpfs", folder, "tmpfs", _FLAGS, f"mode=700,{_size(_FIRST_BYTES)}")


def resize(folder: str, limits: SandboxLimits) -> bool:
    """Have the folder hold what the limits say, and return whether it does not hold more already.

    Raises:
        OSError: it is not there any more, or the kernel refuses.
    """
    if not os.path.ismount(folder):
        raise OSError(errno.ENOENT, "its folder has gone with the keeper that made it")
    try:
        linux.mount("", folder, flags=_FLAGS | linux.MS_REMOUNT, data=_size(limits.folder_bytes))
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    return True


def is_full(folder: int, limits: SandboxLimits) -> bool:
    """Return whether an open folder holds more than the limits say: there is a page more than that, to see it by."""
    now = os.fstatvfs(folder)
    return (now.f_blocks - now.f_bfree) * now.f_frsize > limits.folder_bytes or not now.f_ffree


def _size(size_bytes: int) -> str:
    pages = -(-size_bytes // _PAGE_BYTES)
    return f"size={(pages + 1) * _PAGE_BYTES},nr_inodes={min(max(pages, _FEWEST_ENTRIES), _MOST_ENTRIES)}"
