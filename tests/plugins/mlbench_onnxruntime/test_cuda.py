import pytest
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_onnxruntime.options import OnnxRuntimeOptions

from mlbench.conformance import GraphBackendConformance
from mlbench.contracts.precision import Precision

onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        "CUDAExecutionProvider" not in onnxruntime.get_available_providers(), reason="needs onnxruntime-gpu"
    ),
]


class TestFp32(GraphBackendConformance):
    @pytest.fixture
    def backend(self):
        return OnnxRuntime().with_options(OnnxRuntimeOptions(provider="cuda"))


class TestFp16(TestFp32):
    precision = Precision.FP16
