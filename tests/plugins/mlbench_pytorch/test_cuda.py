import pytest
from mlbench_pytorch.backend import PyTorch, PyTorchOptions

from mlbench.conformance import GraphBackendConformance
from mlbench.contracts.graph import Precision

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or HIP device"),
]


class OnDevice(GraphBackendConformance):
    @pytest.fixture
    def backend(self):
        return PyTorch().configured(PyTorchOptions(device="cuda"))


class TestFp32(OnDevice):
    pass


class TestBf16(OnDevice):
    precision = Precision.BF16


class TestFp16(OnDevice):
    precision = Precision.FP16
