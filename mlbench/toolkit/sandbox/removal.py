"""Removes a folder that an untrusted program has written to."""

from __future__ import annotations

import errno
import os
import secrets
import time

from mlbench.toolkit.sandbox.tree import open_folder

_ALL = os.R_OK | os.W_OK | os.X_OK
_PATIENCE_S = 120.0
"""How long something may go on adding to a folder that is being removed."""


def remove_folder(folder: str) -> str:
    """Remove a folder with all in it, however deep and whatever its rights; follow no link and enter no other mount.

    Returns:
        What could not be removed and why, in one line; empty when all is gone.
    """
    try:
        top = open_folder(folder, rights=_ALL)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{folder}: {error.strerror}"
    try:
        kept = _empty(top)
    except OSError as error:
        kept = {"": str(error.strerror)}
    finally:
        os.close(top)
    if kept:
        name, reason = next(iter(kept.items()))
        return f"{len(kept)} in {folder}, as {name!r}: {reason}"
    try:
        os.rmdir(folder)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


def _empty(top: int) -> dict[str, str]:
    """Remove all in a folder; return the names that are left, each with the reason.

    Folders below its own are moved up into it and are then seen in the next round: two descriptors are open at most.
    """
    deadline = time.monotonic() + _PATIENCE_S
    mount = _mount(top)
    kept: dict[str, str] = {}
    while names := [name for name in os.listdir(top) if name not in kept]:
        for name in names:
            if time.monotonic() > deadline:
                kept[name] = "there was always more"
                continue
            try:
                _remove(top, name, mount)
            except OSError as error:
                kept[name] = str(error.strerror)
    return kept


def _remove(top: int, name: str, mount: str) -> None:
    try:
        os.unlink(name, dir_fd=top)
        return
    except IsADirectoryError:
        pass
    refused: OSError | None = None
    here = open_folder(name, top, rights=_ALL)
    try:
        if _mount(here) != mount:
            raise OSError(errno.EBUSY, "something is mounted there")
        for each in os.listdir(here):
            try:
                _remove_or_move_up(here, each, top)
            except OSError as error:
                refused = refused or error
    finally:
        os.close(here)
    if refused:
        raise refused
    os.rmdir(name, dir_fd=top)


def _remove_or_move_up(here: int, name: str, top: int) -> None:
    try:
        os.unlink(name, dir_fd=here)
        return
    except IsADirectoryError:
        pass
    try:
        os.rmdir(name, dir_fd=here)
        return
    except OSError:  # there is something in it
        pass
    os.close(open_folder(name, here, rights=_ALL))  # only a folder that may be written to can be moved
    os.rename(name, secrets.token_hex(16), src_dir_fd=here, dst_dir_fd=top)


def _mount(descriptor: int) -> str:
    """Return the number of the mount that an open file is on: also one of the same disk is another."""
    with open(f"/proc/self/fdinfo/{descriptor}") as file:
        return next((line for line in file if line.startswith("mnt_id:")), "")
