"""Execution providers, their devices and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlbench import UsageError
from mlbench.toolkit import first_line
from mlbench_onnxruntime.libraries import load_libraries, missing_library

CPU = "CPUExecutionProvider"

CUDA = "CUDAExecutionProvider"

TENSORRT = "TensorrtExecutionProvider"

INDEXED = {
    CUDA: "device_id",
    TENSORRT: "device_id",
    "ROCMExecutionProvider": "device_id",
    "MIGraphXExecutionProvider": "device_id",
}
"""Providers that take a device's number, and as which option."""

MEMORY = {CUDA: "cuda", TENSORRT: "cuda"}
"""Where a provider's tensors lie, if not in the CPU's memory."""

EXACT = {CUDA: {"use_tf32": "0"}}
"""Options without which a provider computes fp32 in a lower precision; the user's own are preferred."""

SHARED = {CUDA: {"arena_extend_strategy": "kSameAsRequested"}}
"""Options for several sessions on a device; the user's own are preferred."""

BEHIND = {TENSORRT: CUDA}
"""The fallback provider on the same device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where sessions run."""

    provider: str
    """ONNX Runtime's name of it."""
    device: int = 0
    options: tuple[tuple[str, str], ...] = ()
    """The provider's own, by name."""

    @property
    def memory(self) -> str:
        """The kind of memory that tensors lie in, as ONNX Runtime calls it."""
        return MEMORY.get(self.provider, "cpu")

    @property
    def providers(self) -> list[tuple[str, dict[str, str]]]:
        """What a session is to be given, in order of preference; ONNX Runtime adds the CPU itself."""
        return self.providers_with({})

    def providers_with(self, options: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
        """Return `providers` with further options, of which those of `options` are preferred."""
        chain = [(self.provider, {**self._usual(self.provider), **options, **dict(self.options)})]
        if behind := BEHIND.get(self.provider):
            chain.append((behind, self._usual(behind)))
        return chain

    def shared(self) -> Place:
        """Return the place for one of several sessions: none takes more of its memory than it needs."""
        return replace(self, options=(*SHARED.get(self.provider, {}).items(), *self.options))

    def _usual(self, provider: str) -> dict[str, str]:
        number = {INDEXED[provider]: str(self.device)} if provider in INDEXED else {}
        return {**number, **EXACT.get(provider, {})}


def usable_place(name: str, device: int, options: Mapping[str, str]) -> Place:
    """Return where to run, after a session of a single operator has run there.

    Raises:
        UsageError: there is no such provider or device, it does not take the options, or it cannot start.
    """
    provider = usable_provider(name)
    if provider not in INDEXED and device:
        raise UsageError(
            f"backend.device is {device}, and {provider} takes no number of a device.",
            hint="Leave it at 0; see backend.provider_options.",
        )
    if provider == CPU and options:
        raise UsageError(
            f"backend.provider_options has {', '.join(options)}, and {CPU} takes none.", hint="Leave them out."
        )
    place = Place(provider=provider, device=device, options=tuple(options.items()))
    if provider != CPU:
        _start(place)
    return place


def usable_provider(name: str) -> str:
    """Return ONNX Runtime's name of a provider, given that or its short form.

    Raises:
        UsageError: this build of ONNX Runtime does not have it.
    """
    import onnxruntime

    available: list[str] = onnxruntime.get_available_providers()
    by_name = {full.removesuffix("ExecutionProvider").lower(): full for full in available}
    found = by_name.get(name.removesuffix("ExecutionProvider").lower())
    if found is None:
        raise UsageError(
            f"backend.provider is {name!r}, which this ONNX Runtime ({onnxruntime.__version__}) does not have.",
            hint=f"It has {', '.join(by_name)}; another build, in its place, may have more: "
            "pip uninstall -y onnxruntime && pip install 'mlbench-inference[onnxruntime-gpu]'.",
        )
    return found


def _start(place: Place) -> None:
    """Run a session of one operator: a failure here is the provider's, not the graph's."""
    import numpy as np
    import onnxruntime

    given = f"{place.provider} on device {place.device}"
    hint = "Install the libraries that it needs, or choose another backend.provider, device or provider_options."
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4  # fatal: the error is reported below, once
    load_libraries(place.provider)
    try:
        session = onnxruntime.InferenceSession(_one_operator(), settings, providers=place.providers, enable_fallback=0)
        if session.get_providers()[0] == place.provider:  # else it warned, and carried on with the CPU
            session.run(None, {"x": np.zeros(1, np.float32)})
            return
        reason = f"it fell back to {session.get_providers()[0]}"
    except Exception as error:  # ONNX Runtime has an exception class for each of its status codes
        reason = first_line(error)
    if missing := missing_library(place.provider):
        reason = f"{reason} ({missing})"
    raise UsageError(f"ONNX Runtime {onnxruntime.__version__} could not start {given}: {reason}.", hint=hint)


def _one_operator() -> Any:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one_operator", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()
