"""Replies to one sample, or of one kind, that are not what was asked for, from an engine that computes."""

import numpy as np

from mlbench_broken.right import POISONED_INDEX
from mlbench_broken.wrapping import BrokenReplies, poisoned_places, sound_places


def with_another_reply(change):
    """Answer the poisoned sample with ``change(its row)`` and all others as they are."""

    def tamper(samples, outputs, reply):
        rows = [
            change(row) if index == POISONED_INDEX else row for index, row in zip(samples.indices, outputs, strict=True)
        ]
        reply.complete(samples, rows)

    return tamper


def twice(samples, outputs, reply):
    reply.complete(samples, outputs)
    if places := poisoned_places(samples):
        reply.complete(samples.at(places), outputs[places])


def losing(samples, outputs, reply):
    places = sound_places(samples)
    reply.complete(samples.at(places), outputs[places])


def given_up(samples, outputs, reply):
    losing(samples, outputs, reply)
    reply.fail(samples.at(poisoned_places(samples)), "no luck with this one")


def rows_in_another_order(samples, outputs, reply):
    reply.complete(samples, outputs[::-1].copy())


def one_row_too_few(samples, outputs, reply):
    reply.complete(samples, outputs[1:] if poisoned_places(samples) else outputs)


def indices_for_ids(samples, outputs, reply):
    reply.complete(type(samples)(samples.indices, samples.indices, samples.dataset), outputs)


BACKENDS = [
    BrokenReplies("empty-reply", with_another_reply(lambda row: row[:0])),
    BrokenReplies("wrong-shape", with_another_reply(lambda row: row[:-1])),
    BrokenReplies("wrong-dtype", with_another_reply(lambda row: row.astype(np.float16))),
    BrokenReplies("nan-reply", with_another_reply(lambda row: row * np.float32("nan"))),
    BrokenReplies("duplicated-reply", twice),
    BrokenReplies("lost-reply", losing),
    BrokenReplies("failed-reply", given_up),
    BrokenReplies("too-few-rows", one_row_too_few),
    BrokenReplies("swapped-replies", rows_in_another_order),
    BrokenReplies("indices-for-ids", indices_for_ids),
]
