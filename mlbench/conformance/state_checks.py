"""Checks of compiled graphs with state: each slot keeps its contents as long as it is in use.

A backend whose executables keep no state passes with the ONNX form of the graphs: the core carries the state.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from mlbench.conformance.known_state import LONGEST, MOST_ROWS, MOST_SLOTS, WRITERS, Trial, summing_graph, token_list
from mlbench.conformance.subject import Check, Subject, demand
from mlbench.contracts.generation import DECODE, PREFILL, SLOTS
from mlbench.execution.generation.host_state import stateful
from mlbench.toolkit import host_array

_TIMES = 25
"""How often a list is read and continued: more than two hundred steps."""

_ORDER = (0, 0, 0, 1, 0, 1, 1, 1, 0, 0)
"""Which of two graphs is called: every order of three calls is in it."""


def keeps_state_between_calls(subject: Subject) -> None:
    """A slot keeps what it was given: a list read in pieces and continued token by token equals the torch module."""
    trial = Trial(subject)
    tokens = token_list(16, seed=1)
    for time in range(_TIMES):
        where = f"of a list that was read {time} times before" if time else "of a list"
        trial.read([tokens[:4]], [0], f"on the first piece {where}")
        trial.read([tokens[4:7]], [0], f"on the second piece {where}", positions=[4])
        for position in range(7, 16):
            trial.step([tokens[position]], [position], f"on token {position} {where}")
    trial.demand_outputs_kept()


def keeps_slots_apart(subject: Subject) -> None:
    """Slots do not see each other, whichever are read at once, in whatever order, and however many are continued."""
    trial = Trial(subject, slots=MOST_SLOTS)
    lists = [token_list(12, seed=seed) for seed in range(MOST_SLOTS)]
    for slots in ([5], [2, 7, 0], [1, 4, 3, 6]):
        trial.read([lists[slot][: 3 + slot] for slot in slots], slots, f"reading into slots {slots}")
    for step, rows in enumerate((3, MOST_SLOTS, 1, 5)):
        positions = [4 + slot + step for slot in range(rows)]
        where = f"continuing the first {rows} of {MOST_SLOTS} slots"
        trial.step([lists[slot][step] for slot in range(rows)], positions, where)
    trial.read([lists[6][:5]], [6], "reading into slot 6 again")
    trial.step(
        [lists[slot][7] for slot in range(7)], [9, 10, 11, 12, 13, 14, 5], "after one of the slots was read again"
    )
    trial.start(slots=MOST_ROWS, length=8)
    trial.read(
        [token_list(3, seed=seed) for seed in range(MOST_ROWS)], range(MOST_ROWS), f"reading into {MOST_ROWS} slots"
    )
    trial.step(token_list(MOST_ROWS, seed=31), [3] * MOST_ROWS, f"continuing {MOST_ROWS} slots")


def sees_nothing_of_a_slots_last_list(subject: Subject) -> None:
    """A slot that is given to another, shorter list shows nothing of the last one, although it was not cleared."""
    trial = Trial(subject, slots=2)
    trial.read([token_list(14, seed=2), token_list(9, seed=3)], [0, 1], "reading two lists")
    trial.step([5, 6], [14, 9], "continuing two lists")
    trial.read([token_list(3, seed=4)], [0], "reading a shorter list into a slot that was used")
    for position in (3, 4, 5):
        where = "continuing a shorter list in a slot that was used, with all columns to look at"
        trial.step([7, 8], [position, 7 + position], where, span=16)


def starts_with_zeros(subject: Subject) -> None:
    """New state is zero, also where memory was used before."""
    trial = Trial(subject, slots=2)
    trial.read([token_list(16, seed=5), token_list(16, seed=6)], [0, 1], "filling a state")
    for graph in (PREFILL, DECODE):
        trial.start(slots=2, length=16, graph=graph)
        trial.step([9, 10], [6, 3], f"looking at columns of a new state (made by {graph}) that nothing was written to")


def keeps_states_apart(subject: Subject) -> None:
    """Two states do not share memory: what is done to one leaves the other as it was."""
    trial = Trial(subject, slots=2)
    trial.read([token_list(8, seed=7)], [0], "reading into the first of two states")
    first = trial.swap()
    trial.start(slots=2, length=16)
    trial.read([token_list(11, seed=8)], [0], "reading into the second of two states")
    second = trial.swap(first)
    trial.step([11], [8], "continuing the first of two states")
    trial.swap(second)
    trial.step([12], [11], "continuing the second of two states")


def shares_state_between_graphs(subject: Subject) -> None:
    """State made, grown or copied in by one executable serves all that were compiled from graphs of equal state."""
    for maker, other in ((PREFILL, DECODE), (DECODE, PREFILL)):
        trial = Trial(subject, slots=2, length=8)
        trial.start(slots=2, length=8, graph=maker)
        trial.read([token_list(5, seed=9), token_list(4, seed=10)], [0, 1], f"with a state that {maker} made")
        trial.step([13, 14], [5, 4], f"with a state that {maker} made")
        trial.grow(slots=3, length=12, graph=other)
        trial.copy([1], [2], range(5), graph=maker)
        trial.read([token_list(3, seed=11)], [2], f"with a state that {maker} made and {other} grew", positions=[5])
        trial.step([15, 16, 17], [6, 5, 8], f"with a state that {maker} made and {other} grew")


def shares_state_between_all_kinds_of_writers(subject: Subject) -> None:
    """Graphs that write a state in place, make it anew, in some of its rows, or leave it serve each other in any order.

    Whichever of two made the state, each sees what the other left.
    """
    trial = Trial(subject)
    for pair in permutations(WRITERS, 2):
        trial.start(slots=4, length=16, graph=pair[0])
        ends = [3, 2, 4, 3]
        trial.read([token_list(end, seed=29 + slot) for slot, end in enumerate(ends)], range(4), "filling a state")
        for call, which in enumerate(_ORDER):
            where = f"in call {call + 1} of {pair[0]} and {pair[1]} on one state"
            trial.write(pair[which], ends, (3, 4, 1)[call % 3], where)
        trial.write("looking", ends, 4, f"after calls of {pair[0]} and {pair[1]} on one state")


def grows_state(subject: Subject) -> None:
    """Larger state begins with the contents of the smaller one, and takes more slots and longer lists."""
    for slots, length in ((2, 24), (MOST_SLOTS, 8), (5, LONGEST)):
        trial = Trial(subject, slots=2, length=8)
        trial.read([token_list(6, seed=12), token_list(8, seed=13)], [0, 1], "before the state grew")
        trial.grow(slots=slots, length=length)
        where = f"after the state grew from 2 x 8 to {slots} x {length}"
        trial.step([18], [6], where)
        trial.read([token_list(7, seed=14)], [slots - 1], where)
        trial.read([token_list(1, seed=15)], [0], where, positions=[7])
        trial.read([[19, 20]], [1], where, positions=[length - 2])


def copies_rows(subject: Subject) -> None:
    """Rows are copied as they were before the call, though a row be both source and target; other rows stay."""
    trial = Trial(subject, slots=5)
    lists = [token_list(9, seed=16 + slot) for slot in range(5)]
    trial.read(lists, range(5), "before rows were copied")
    for sources, targets in (([3], [0]), ([0, 1, 2], [1, 2, 0]), ([4, 4, 2], [0, 1, 4])):
        trial.copy(sources, targets, range(9))
        where = f"after rows {sources} were copied to rows {targets}"
        trial.step([21, 22, 23, 24, 25], [9] * 5, where)


def copies_the_columns_it_is_told(subject: Subject) -> None:
    """Where lists share their beginning, copying the columns behind it is enough."""
    trial = Trial(subject, slots=3)
    start = token_list(5, seed=21)
    trial.read([start + token_list(6, seed=22 + slot) for slot in range(3)], range(3), "before columns were copied")
    trial.copy([2, 0], [0, 1], range(5, 11))
    trial.step([26, 27, 28], [11] * 3, "after columns 5 to 10 of rows [2, 0] were copied to rows [0, 1]")


def keeps_types_of_state(subject: Subject) -> None:
    """State that keeps its types has all their digits at any precision: fp16 would make 4096 of 4097."""
    graph, addends = summing_graph(), np.array([4097, 3])
    executable = stateful(subject.compile(graph), graph)
    state = executable.new_state({SLOTS: 4})
    for call in range(1, 5):
        sums = host_array(executable({"addends": addends}, state)["sums"])
        demand(
            np.array_equal(sums, call * addends),
            f"state 'totals' is {np.ravel(sums).tolist()} after {call} times {addends.tolist()} were added.",
            "Keep state in the types of its specs where the graph says `state_keeps_types`.",
        )


STATE_CHECKS: tuple[Check, ...] = (
    keeps_state_between_calls,
    keeps_slots_apart,
    sees_nothing_of_a_slots_last_list,
    starts_with_zeros,
    keeps_states_apart,
    shares_state_between_graphs,
    shares_state_between_all_kinds_of_writers,
    grows_state,
    copies_rows,
    copies_the_columns_it_is_told,
    keeps_types_of_state,
)
