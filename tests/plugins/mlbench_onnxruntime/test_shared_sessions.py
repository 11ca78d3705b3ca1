"""Workers with one thread each share a session, and so have a model's weights in memory once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from product_graph import WEIGHT, FileGraph, backend, inputs

from mlbench import Precision

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of sessions, in the order of loading."""
    found: list[Path] = []

    class Noted(onnxruntime.InferenceSession):
        def __init__(self, path: Path, *args: object, **options: object) -> None:
            found.append(path)
            super().__init__(path, *args, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Noted)
    return found


def test_executables_with_one_thread_each_share_a_session_for_as_long_as_one_of_them_is_used(
    product: Path, loaded: list[Path]
):
    made = backend()
    first = made.compile(FileGraph(product, []), Precision.FP32)
    second = made.with_options(made.options).compile(FileGraph(product, []), Precision.FP32)
    assert loaded == [product]
    del first
    np.testing.assert_allclose(second({"x": inputs()})["y"], inputs() @ WEIGHT, atol=1e-6)
    del second
    third = made.compile(FileGraph(product, []), Precision.FP32)
    assert loaded == [product, product]
    np.testing.assert_allclose(third({"x": inputs()})["y"], inputs() @ WEIGHT, atol=1e-6)


@pytest.mark.parametrize(("one", "other"), [({"threads": 2}, {"threads": 2}), ({}, {"optimization": "basic"})])
def test_several_threads_or_another_optimisation_have_a_session_of_their_own(
    product: Path, loaded: list[Path], one: dict, other: dict
):
    kept = [backend(**each).compile(FileGraph(product, []), Precision.FP32) for each in (one, other)]
    assert len(loaded) == len(kept)


def test_a_shared_session_answers_each_thread_that_calls_it_with_its_own_product(product: Path):
    made = backend()
    executables = [made.compile(FileGraph(product, []), Precision.FP32) for _ in range(4)]

    def is_right(number: int) -> bool:
        given = [inputs(100 * number + call) for call in range(100)]
        found = [executables[number]({"x": each})["y"] for each in given]
        return all(np.allclose(each, x @ WEIGHT, atol=1e-6) for each, x in zip(found, given, strict=True))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(is_right, range(4)))
