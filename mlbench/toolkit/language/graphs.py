"""A language model as two graphs over one key-value cache, for decoders of Hugging Face's that keep keys and values.

What the graphs take and return: `mlbench.contracts.generation`.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlbench.contracts.generation import DECODE, LENGTH, PREFILL, SLOTS, Decoding
from mlbench.contracts.graph import Dim, Graph, TensorSpec
from mlbench.contracts.precision import Precision
from mlbench.toolkit.module_graph import ModuleGraph, module_of

if TYPE_CHECKING:
    import torch

_USUAL_ROWS = 16
_MOST_ROWS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """Size of the key-value cache per token of a sequence."""

    layers: int
    heads: int
    """Those of keys and values, where several query heads share them."""
    head_size: int


def language_graphs(
    build: Callable[[Precision], Any],
    cache: CacheShape,
    *,
    decoding: Decoding,
    fingerprint: str,
    code: Collection[str] = (),
) -> Mapping[str, Graph]:
    """Return ``prefill`` and ``decode``, whose state is the keys and values of each layer.

    The modules of the two share one network as long as both live, so that it takes memory once: the first module of
    each share one, the second another. What a caller does to the weights of one, it does to both.

    Args:
        build: returns the causal language model with its weights, those of matrix products in this precision as far as
            they can be read so; called when a backend asks for a module.
        cache: what it keeps.
        decoding: how answers are made.
        fingerprint: a hash of the weights and of all settings that ``build`` depends on.
        code: as `ModuleGraph` takes it, beside the module of ``build``.
    """
    longest, choices = decoding.longest, decoding.choices
    rows = Dim(name="rows", smallest=1, usual=_USUAL_ROWS, largest=_MOST_ROWS)
    tokens = Dim(name="tokens", smallest=1, usual=_half(longest), largest=longest)
    span = Dim(name="span", smallest=1, usual=_half(longest), largest=longest)
    pieces = TensorSpec(name="input_ids", shape=(rows, tokens), dtype="int64")
    columns = TensorSpec(name="columns", shape=(span,), dtype="int64")
    inputs = {
        PREFILL: (pieces, *_per_row(rows, "positions", "slots", "last"), columns),
        DECODE: (*_per_row(rows, "input_ids", "positions"), columns),
    }
    network = _SharedNetwork(build, tuple(inputs))

    def graph(name: str) -> Graph:
        def at(precision: Precision) -> torch.nn.Module:
            return _module(name, network.lend_to(name, precision), choices)

        return ModuleGraph(
            name,
            inputs=inputs[name],
            outputs=(
                TensorSpec(name="tokens", shape=(rows, choices), dtype="int64"),
                TensorSpec(name="log_probabilities", shape=(rows, choices), dtype="float32"),
            ),
            state=_state(cache, longest),
            build=lambda: at(Precision.FP32),
            build_at=at,
            fingerprint=fingerprint,
            code=(module_of(build), *code),
        )

    return {name: graph(name) for name in inputs}


def _half(longest: int) -> int:
    return max(1, longest // 2)


def _per_row(rows: Dim, *names: str) -> Iterator[TensorSpec]:
    return (TensorSpec(name=name, shape=(rows,), dtype="int64") for name in names)


def _state(cache: CacheShape, longest: int) -> tuple[TensorSpec, ...]:
    slots = Dim(name=SLOTS, smallest=1, usual=_USUAL_ROWS, largest=_MOST_ROWS)
    length = Dim(name=LENGTH, smallest=1, usual=_half(longest), largest=longest)
    shape = (slots, cache.heads, length, cache.head_size)
    return tuple(
        TensorSpec(name=f"{part}.{layer}", shape=shape, dtype="float32")
        for layer in range(cache.layers)
        for part in ("keys", "values")
    )


def _module(name: str, network: Any, choices: int) -> torch.nn.Module:
    from mlbench.toolkit.language.decoder_modules import Decode, Prefill

    return (Prefill if name == PREFILL else Decode)(network, choices)


class _SharedNetwork:
    """Lends one network to all graphs of a model, and builds another for a graph that asks again."""

    def __init__(self, build: Callable[[Precision], Any], graphs: Sequence[str]) -> None:
        self._build = build
        self._graphs = graphs
        self._offers: defaultdict[tuple[str, Precision], list[weakref.ref[Any]]] = defaultdict(list)

    def lend_to(self, graph: str, precision: Precision) -> Any:
        """Return a network that this graph has not had yet: one that another's module keeps alive, or a new one."""
        offers = self._offers[graph, precision]
        while offers:
            if (network := offers.pop(0)()) is not None:
                return network
        network = self._build(precision)
        for other in self._graphs:
            if other != graph:
                self._offers[other, precision].append(weakref.ref(network))
        return network
