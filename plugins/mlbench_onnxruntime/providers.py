"""Execution providers, their devices and options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from mlbench import UsageError
from mlbench.toolkit import first_line
from mlbench_onnxruntime.libraries import load_libraries, missing_library
from mlbench_onnxruntime.products import BITS, OVERRIDE, measure_bits, product_model, switch_off_tf32

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
"""Memory of a provider's tensors, if not the CPU's."""

EXACT = {CUDA: {"use_tf32": "0"}}
"""Options that make a provider compute fp32 in full precision; the user's own are preferred."""

_ENOUGH = 20
"""Bits of the mantissa that fp32 keeps also where it is made of several products of tensor cores."""

LOWERING = frozenset({"use_tf32", "trt_fp16_enable", "trt_bf16_enable", "trt_int8_enable", "trt_fp8_enable"})
"""Options by which a user asks a provider to compute fp32 in a lower precision."""

SHARED = {CUDA: {"arena_extend_strategy": "kSameAsRequested"}}
"""Options for several sessions on a device; the user's own are preferred."""

BEHIND = {TENSORRT: CUDA}
"""The fallback provider on the same device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Provider, device and options of sessions."""

    provider: str
    """ONNX Runtime's name of it."""
    device: int = 0
    options: tuple[tuple[str, str], ...] = ()
    """The provider's own options, by name."""

    @property
    def memory(self) -> str:
        """The kind of memory that tensors lie in, as ONNX Runtime calls it."""
        return MEMORY.get(self.provider, "cpu")

    @property
    def providers(self) -> list[tuple[str, dict[str, str]]]:
        """Providers of a session, in order of preference; ONNX Runtime adds the CPU itself."""
        return self.providers_with({})

    def providers_with(self, options: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
        """Return `providers` with further options, of which those of `options` are preferred."""
        chain = [(self.provider, {**self._usual(self.provider), **options, **dict(self.options)})]
        if behind := BEHIND.get(self.provider):
            chain.append((behind, self._usual(behind)))
        return chain

    @property
    def is_lowered(self) -> bool:
        """Whether the user's options ask for a lower precision than a graph's file has."""
        return any(name in LOWERING and value.lower() not in ("0", "false") for name, value in self.options)

    def shared(self) -> Place:
        """Return the place for one of several sessions: each takes only the memory that it needs."""
        return replace(self, options=(*SHARED.get(self.provider, {}).items(), *self.options))

    def _usual(self, provider: str) -> dict[str, str]:
        number = {INDEXED[provider]: str(self.device)} if provider in INDEXED else {}
        return {**number, **EXACT.get(provider, {})}


def usable_place(name: str, device: int, options: Mapping[str, str]) -> Place:
    """Return where to run, after a session of a single operator has run there; see `fp32_bits` for its outcome.

    Raises:
        UsageError: there is no such provider or device, it refuses the options, or it cannot start.
    """
    provider = usable_provider(name)
    if provider not in INDEXED and device:
        raise UsageError(
            f"backend.device is {device}, but {provider} has no device numbers.",
            hint="Leave it at 0; see backend.provider_options.",
        )
    if provider == CPU and options:
        raise UsageError(
            f"backend.provider_options has {', '.join(options)}, but {CPU} has none.", hint="Leave them out."
        )
    place = Place(provider=provider, device=device, options=tuple(options.items()))
    if provider == TENSORRT:
        switch_off_tf32()
    fp32_bits(place)
    return place


def demand_fp32(place: Place, bits: int) -> None:
    """Raise `UsageError` if products of fp32 numbers keep, or may keep, so few bits that it is another format.

    One product cannot tell for all: TensorRT chooses a kernel for each.
    """
    given = os.environ.get(OVERRIDE)
    if bits < _ENOUGH:
        reason = (
            f"{place.provider} multiplies fp32 numbers with {bits} of {BITS} bits of mantissa (TF32 has 10, bf16 7)"
        )
    elif place.provider == TENSORRT and given != "0":
        reason = f"{OVERRIDE} is {given!r}, but {place.provider} has no option that forbids TF32"
    else:
        return
    raise UsageError(
        f"{reason}.",
        hint=f"Start mlbench with {OVERRIDE}=0, or ask for a lower --precision.",
    )


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


@cache
def fp32_bits(place: Place) -> int | None:
    """Return how many bits of the mantissa a product of fp32 numbers keeps there; None on a CPU, which keeps all.

    Raises:
        UsageError: the session of one operator that measures it does not start, so the graph is not at fault.
    """
    import onnxruntime

    if place.provider == CPU:
        return None

    given = f"{place.provider} on device {place.device}"
    hint = "Install the libraries that it needs, or choose another backend.provider, device or provider_options."
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4  # fatal: the error is reported below, once
    load_libraries(place.provider)
    try:
        session = onnxruntime.InferenceSession(product_model(), settings, providers=place.providers, enable_fallback=0)
        if session.get_providers()[0] == place.provider:  # else it warned, and carried on with the CPU
            return measure_bits(session)
        reason = f"it fell back to {session.get_providers()[0]}"
    except Exception as error:  # ONNX Runtime has an exception class for each of its status codes
        reason = first_line(error)
    if missing := missing_library(place.provider):
        reason = f"{reason} ({missing})"
    raise UsageError(f"ONNX Runtime {onnxruntime.__version__} could not start {given}: {reason}.", hint=hint)
