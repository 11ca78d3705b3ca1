"""Backends that are broken, each in one way, around one that is right: what the kit must catch.

Installed for a test by putting the folder above on the path; discovered like any stranger's plugin.
"""

from mlbench import hookimpl
from mlbench_broken import engines, facts, graphs, language, misuse, processes, replies, states, text
from mlbench_broken.right import Absent, Plain, Right


@hookimpl
def mlbench_backends():
    kinds = (graphs, states, replies, engines, misuse, language, facts, processes, text)
    return [Right(), Absent(), Plain(), *(backend for kind in kinds for backend in kind.BACKENDS)]
