"""How long a process may be silent before it is taken for hung, on a machine that may be busy with other things."""

from __future__ import annotations

WORKING_SHARE = 0.1
"""A silent process that used less than this share of the time on a processor is waiting, and not working."""

LONGEST_WAIT = 4.0
"""How many times its limit a process may be silent at most, however hard it works."""


def is_hung(silent_s: float, computed_s: float, timeout_s: float) -> bool:
    """Return whether a process that gave no sign of life for a while is taken for hung.

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
