"""What an engine answers to samples of a mini profile; also with int8 weights as x86 CPUs without VNNI get them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from mlbench import Backend, DataError, EnginePlan, Model, Profile, Samples, Variant, Weights, Workload
from mlbench.conformance.recording import RecordingReply
from mlbench.execution.engine_choice import engine_of
from mlbench.toolkit import machine_flags, onnx_quantization

PATIENCE_S = 3600


def mini_variant(workload: Workload) -> Variant:
    """Return the mini profile with its trained weights."""
    return Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)


def answers_of(backend: Backend, model: Model, plan: EnginePlan, samples: Samples) -> Mapping[int, Any]:
    """Return the answers of an engine to samples that are submitted at once, by their ids.

    Raises:
        GraphError: the backend cannot compile a graph so.
        DataError: a sample was given up.
    """
    reply = RecordingReply()
    with engine_of(backend, model, plan) as engine:
        engine.submit(samples, reply)
        engine.flush()
        is_done = reply.wait(samples, PATIENCE_S)
    if not is_done or reply.failures:
        reason = next(iter(reply.failures.values()), [f"nothing was answered for {PATIENCE_S} s"])[0]
        raise DataError(f"{backend.name}: {reason}")
    return {id_: answer for id_, (answer,) in reply.answers.items()}


@contextmanager
def seven_bit_weights() -> Iterator[None]:
    """Quantise graphs within as if the CPU had no VNNI.

    Sums of products stay within 16 bits with weights of seven, so the two kinds of CPU compute the same integers.
    """
    flags = machine_flags() - onnx_quantization.VNNI
    with mock.patch.object(onnx_quantization, "machine_flags", lambda: flags):
        yield
