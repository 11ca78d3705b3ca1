import pytest
from mlbench_pytorch.backend import PyTorch

from mlbench import UsageError
from mlbench.conformance import GraphBackendConformance
from mlbench.conformance.known_state import Trial
from mlbench.conformance.subject import Subject
from mlbench.contracts.precision import Precision
from mlbench.toolkit import TorchOptions

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or HIP device"),
]


class OnDevice(GraphBackendConformance):
    @pytest.fixture
    def backend(self):
        return PyTorch().with_options(TorchOptions(device="cuda"))


class TestFp32(OnDevice):
    pass


class TestBf16(OnDevice):
    precision = Precision.BF16


class TestFp16(OnDevice):
    precision = Precision.FP16


def test_each_instance_has_a_gpu_of_its_own_and_more_than_gpus_are_refused():
    count = torch.cuda.device_count()
    for number in range(count):
        assert PyTorch().instance(number, count).device() == torch.device("cuda", number)
    with pytest.raises(UsageError, match=f"^execution.instances is {count + 1}, and torch"):
        PyTorch().instance(0, count + 1)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_recording_on_the_second_gpu_sees_each_calls_inputs_and_state():
    backend = PyTorch().with_options(TorchOptions(device="cuda:1"))
    trial = Trial(Subject(backend=backend, precision=Precision.FP32))
    for position in range(8):  # the third call of the same shapes is recorded, those after it are replayed
        trial.step([position + 1, 2 * position], [position, position], f"step {position}", span=8)


def test_instances_share_the_gpu_that_is_named_by_its_number():
    named = PyTorch().with_options(TorchOptions(device="cuda:0"))
    assert named.instance(1, 2).device() == torch.device("cuda", 0)
