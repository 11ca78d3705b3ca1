"""What a backend says of itself is checked: an option that nobody describes is a finding."""

from dataclasses import dataclass

import pytest
from mlbench_null.backend import Null

from mlbench.conformance.description_checks import has_a_name_and_options
from mlbench.conformance.subject import Subject
from mlbench.contracts.precision import Precision
from mlbench.errors import ConformanceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Undescribed:
    """One option is described, one is not."""

    speed: int = 0
    """How fast."""
    depth: int = 0


def test_an_option_without_a_docstring_is_a_finding_that_names_it():
    backend = Null().with_options(Undescribed())
    with pytest.raises(ConformanceError, match=r"the options \['depth'\] are not described") as caught:
        has_a_name_and_options(Subject(backend=backend, precision=Precision.FP32))
    assert "docstring below each field" in caught.value.hint


def test_a_backend_whose_options_are_all_described_passes():
    has_a_name_and_options(Subject(backend=Null(), precision=Precision.FP32))
