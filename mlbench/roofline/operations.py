"""The minimum operations and bytes of one graph call, counted on its torch module without computing.

The module runs on tensors that have shapes and no numbers. Operations are those of matrix products, convolutions and
attention, two for each multiplication with its addition, and the additions of embedding bags.
All else (activations, norms, softmax) is left out: it is little, and runtimes differ in how they do it.

mlbench has its own formulas, by operator name: which operators torch has formulas for, and the names of its attention
kernels, change between releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.graph import Graph, TensorSpec
from mlbench.errors import MlbenchError
from mlbench.roofline.call_costs import CallCost, NotCountedError
from mlbench.system.guards import convert_errors

CHECKED_WITH = ("2.9.0", "2.15.0")
"""The lowest and the highest torch with which all graphs of the nine workloads were counted."""

Formula = Callable[[Sequence[Any], Any], int]
"""From an operator's positional arguments and what it returned to the number of operations."""


def _count_product(left: Tensor, right: Tensor) -> int:
    """Count a product of matrices (..., m, k) and (..., k, n): for each number on the left, n products."""
    return 2 * left.numel() * right.shape[-1]


def _count_convolution(args: Sequence[Any], result: Tensor) -> int:
    """Count filters at all their positions; a transposed convolution puts its filters on the positions of its input."""
    is_transposed = len(args) > 6 and args[6] is True
    positions = (args[0] if is_transposed else result).shape
    return int(2 * positions[0] * prod(positions[2:]) * args[1].numel())


def _count_attention(args: Sequence[Any], result: object) -> int:
    """Count scores and sums, whatever the mask: queries (B, H, Q, D), keys (B, h, K, D), values (B, h, K, V)."""
    query, key, value = args[:3]
    tokens = key.shape[-2]
    return int(2 * query.numel() * tokens + 2 * (query.numel() // query.shape[-1]) * tokens * value.shape[-1])


def _count_bags(args: Sequence[Any], result: Sequence[Tensor]) -> int:
    """Count additions: a bag of n rows takes n - 1 additions for each number of its sum."""
    bags, width = result[0].shape
    return int((args[1].numel() - bags) * width)


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("mm", "bmm", "_int_mm", "_scaled_mm"), lambda args, result: _count_product(args[0], args[1])),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm"), lambda args, result: _count_product(args[1], args[2])),
    **dict.fromkeys(
        ("convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "_slow_conv2d_forward"),
        _count_convolution,
    ),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
        ),
        _count_attention,
    ),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _count_bags),
}
"""By the name of an operator of torch's namespace ``aten``."""


_PRODUCT = re.compile(
    r"(^|_)(mm|bmm|addmm|addbmm|mv|addmv|dot|vdot|matmul|bilinear|lstm|gru|rnn)(_|$)|conv|attention|^_?linear|mkldnn_"
)
"""Names of operators that multiply matrices. One without a formula is an error."""

_RESAMPLES = re.compile("^_?upsample|grid_sample")

aten = torch.ops.aten

_ROWS_OF_RESULT = {aten.embedding, aten.index_select, aten.gather, aten.index}
"""Read as many numbers of their first argument as they return, or their second: `embedding` looks up rows."""

_BAGS = {aten._embedding_bag, aten._embedding_bag_forward_only}

_WRITES = {aten.index_put_: 2, aten.index_put: 2, aten.index_copy_: 3, aten.scatter_: 3}
"""Write as many numbers into their first argument as the argument at this place has."""


class OperationCounter:
    """Counts calls of one graph."""

    def __init__(self, graph: Graph) -> None:
        """Build the module.

        Raises:
            NotCountedError: there is no module.
        """
        self._graph = graph
        try:
            self._module = graph.module()
        except MlbenchError as error:
            raise NotCountedError(error.message) from None

    def cost(self, call: GraphCalls) -> CallCost:
        """Count one call with these shapes of inputs and state.

        Raises:
            NotCountedError: the module does what depends on numbers, or an operator has no formula.
        """
        graph = self._graph

        def refuse(error: Exception) -> NotCountedError:  # of a workload's module, run on tensors without data
            reason = (str(error).splitlines() or [""])[0][:200]
            return NotCountedError(f"graph {graph.name}: {type(error).__name__}: {reason}")

        fake = FakeTensorMode(allow_non_fake_inputs=True)
        with convert_errors(refuse, passes=NotCountedError), fake, torch.no_grad():
            inputs = [_empty(spec, call.shapes[spec.name]) for spec in graph.inputs]
            state = [_empty(spec, spec.concrete_shape(call.state_sizes)) for spec in graph.state]
            ledger = _Ledger([*self._module.parameters(), *self._module.buffers(), *state], inputs)
            with ledger:
                returned = self._module(*inputs, *state)
        outputs = [returned] if isinstance(returned, Tensor) else list(returned)
        return ledger.cost(outputs[: len(graph.outputs)])


def _empty(spec: TensorSpec, shape: Sequence[int]) -> Tensor:
    return torch.empty(tuple(shape), dtype=getattr(torch, spec.dtype))


class _Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator, and adds up what each tensor that was there before the call gives and takes.

    Each use of a tensor counts, but together they never count more than all of it: what is used twice may stay in a
    cache in between. What the call makes for itself does not count, for the same reason.
    """

    def __init__(self, kept: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Take note of the tensors that are there before the call: weights and state, and what is given to it."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._origins = {_storage(tensor): tensor for tensor in (*kept, *inputs)}
        self._kept = {_storage(tensor) for tensor in kept}
        self._touched: dict[int, int] = {}
        self._held: list[Tensor] = []  # or a new tensor takes the place in memory of one that is gone
        self._operations = 0

    def cost(self, outputs: Sequence[Tensor]) -> CallCost:
        """Return the sums, outputs included."""
        numbers, other_bytes = 0, sum(_bytes(tensor) for tensor in outputs)
        for origin, touched in self._touched.items():
            tensor = self._origins[origin]
            count = min(touched, tensor.untyped_storage().nbytes() // tensor.element_size())
            if origin in self._kept and tensor.is_floating_point():
                numbers += count
            else:
                other_bytes += count * tensor.element_size()
        return CallCost(operations=self._operations, numbers=numbers, other_bytes=other_bytes)

    def __torch_dispatch__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result, operator = func(*args, **(kwargs or {})), func.overloadpacket
        if func.is_view:
            self._follow(args[0], result)
            return result
        if func.namespace == "prim":  # asks a tensor where it lies
            return result
        self._operations += _operations(func, args, result)
        for place, tensor in enumerate(tree_leaves((args, kwargs))):
            if isinstance(tensor, Tensor) and (origin := self._origin(tensor)) is not None:
                count = _numbers_used(operator, args, result, tensor, is_first=place == 0)
                self._touched[origin] = self._touched.get(origin, 0) + count
        return result

    def _origin(self, tensor: Tensor) -> int | None:
        found = self._origins.get(_storage(tensor))
        return None if found is None else _storage(found)

    def _follow(self, viewed: Tensor, views: Any) -> None:
        """Let views count as what they show; of a real tensor a view is one without numbers, in another place."""
        if (origin := self._origin(viewed)) is not None:
            for view in tree_leaves(views):
                self._held.append(view)
                self._origins.setdefault(_storage(view), self._origins[origin])


def _operations(func: Any, args: Sequence[Any], result: Any) -> int:
    name = func.overloadpacket.__name__
    if func.namespace == "aten" and (formula := FORMULAS.get(name)) is not None:
        return formula(args, result)
    if _PRODUCT.search(name) and not _RESAMPLES.search(name):
        lowest, highest = CHECKED_WITH
        raise NotCountedError(
            f"no formula for the operator {name} of torch {torch.__version__} (checked with {lowest} to {highest})"
        )
    return 0


def _numbers_used(operator: Any, args: Sequence[Any], result: Any, tensor: Tensor, *, is_first: bool) -> int:
    """Return how many numbers of a tensor an operator reads or writes."""
    if is_first and operator in _ROWS_OF_RESULT:
        return int(result.numel())
    if is_first and operator in _BAGS:
        return int(args[1].numel() * tensor.shape[1])
    if is_first and operator in _WRITES:
        return int(args[_WRITES[operator]].numel())
    return tensor.numel()


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
