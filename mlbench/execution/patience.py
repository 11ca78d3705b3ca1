"""How long a process may be silent before it counts as hung, on a machine that may be busy."""

from __future__ import annotations

WORKING_SHARE = 0.1
"""A silent process that used less than this share of processor time is waiting, not working."""

LONGEST_WAIT = 4.0
"""Maximum silence of a working process, as a multiple of its limit."""


def is_hung(silent_s: float, computed_s: float, timeout_s: float) -> bool:
    """Return whether a silent process counts as hung.

    It is, when it was silent for its limit and

    - used less than a tenth of that time on a processor: it waits for something that does not come;
    - or used as much processor time as the limit: it had all that it was allowed, and spins;
    - or was silent for four times its limit.

    In between it is at work on a machine that is busy with others, and gets more time.

    Args:
        silent_s: since its last sign of life, by the clock.
        computed_s: processor time since then, of the process and all below it.
        timeout_s: its limit.
    """
    if silent_s <= timeout_s:
        return False
    is_waiting = computed_s < WORKING_SHARE * silent_s
    return is_waiting or computed_s >= timeout_s or silent_s >= LONGEST_WAIT * timeout_s
