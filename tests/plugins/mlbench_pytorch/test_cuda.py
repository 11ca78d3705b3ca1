import pytest
from mlbench_pytorch.backend import PyTorch

from mlbench.conformance import GraphBackendConformance
from mlbench.contracts.graph import Precision
from mlbench.toolkit import TorchOptions

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or HIP device"),
]


class OnDevice(GraphBackendConformance):
    @pytest.fixture
    def backend(self):
        return PyTorch().configured(TorchOptions(device="cuda"))


class TestFp32(OnDevice):
    pass


class TestBf16(OnDevice):
    precision = Precision.BF16


class TestFp16(OnDevice):
    precision = Precision.FP16
