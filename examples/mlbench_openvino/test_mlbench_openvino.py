"""The conformance kit on this backend."""

import pytest
from mlbench_openvino import OpenVino

from mlbench.conformance import GraphBackendConformance


class TestOpenVino(GraphBackendConformance):
    """Runs every check for a backend that compiles graphs."""

    @pytest.fixture
    def backend(self):
        """Return the backend as users get it."""
        return OpenVino()
