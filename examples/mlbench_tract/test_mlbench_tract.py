"""The conformance kit on this backend."""

import pytest
from mlbench_tract import Tract

from mlbench.conformance import GraphBackendConformance


class TestTract(GraphBackendConformance):
    """Runs every check for a backend that compiles graphs."""

    @pytest.fixture
    def backend(self):
        """Return the backend as users get it."""
        return Tract()
