from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from mlbench_pytorch.backend import PyTorch

from mlbench import Dim, TensorSpec, UsageError
from mlbench.conformance import GraphBackendConformance
from mlbench.conformance.known_state import Trial
from mlbench.conformance.subject import Subject
from mlbench.contracts.precision import Precision
from mlbench.toolkit import ModuleGraph, TorchOptions

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
    with pytest.raises(
        UsageError, match=f"^execution.instances is {count + 1}; GPUs that torch .* can use here: {count}"
    ):
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


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()
        )

    def forward(self, images):
        return self.layers(images)


@pytest.fixture(scope="module")
def images():
    batch = Dim(name="batch", smallest=1, usual=4, largest=16)
    weights = Network().state_dict()

    def network():
        made = Network().eval()
        made.load_state_dict(weights)
        return made

    return ModuleGraph(
        "images",
        inputs=(TensorSpec(name="images", shape=(batch, 3, 16, 16), dtype="float32", layout="NCHW"),),
        outputs=(TensorSpec(name="features", shape=(batch, 2048), dtype="float32"),),
        build=network,
        fingerprint="images",
    )


def batches(seed):
    generator = np.random.default_rng(seed)
    sizes = [1, 1, 2, 2, 4, 4, 8, 8, *generator.integers(1, 9, 40)]
    return [generator.standard_normal((size, 3, 16, 16), dtype=np.float32) for size in sizes]


def test_recorded_batches_of_all_sizes_answer_as_those_that_run_as_usual(images):
    kept, usual = (
        PyTorch().with_options(TorchOptions(device="cuda", cuda_graphs=graphs)).compile(images, Precision.FP32)
        for graphs in (True, False)
    )
    answers = [(kept({"images": batch})["features"], usual({"images": batch})["features"]) for batch in batches(0)]
    for found, expected in answers:  # all of them after the last call: no answer lies where a later one is written
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert sorted(kept._replayed._batches) == [1, 2, 4, 8]


def test_workers_record_and_replay_side_by_side_and_each_gets_its_own_answers(images):
    backend = PyTorch().with_options(TorchOptions(device="cuda"))
    usual = PyTorch().with_options(TorchOptions(device="cuda", cuda_graphs=False)).compile(images, Precision.FP32)

    def work(number):
        executable = backend.compile(images, Precision.FP32)
        return [executable({"images": batch})["features"] for batch in batches(number)]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(work, range(4)))
    for number, found in enumerate(answers):
        for answer, batch in zip(found, batches(number), strict=True):
            np.testing.assert_allclose(answer, usual({"images": batch})["features"], rtol=1e-4, atol=1e-5)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(64, 64)

    def forward(self, tokens, is_token):
        heads = self.project(tokens).unflatten(-1, (2, 32)).transpose(1, 2)
        mask = is_token[:, None, None, :]
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, mask).float()


def test_no_attention_is_planned_by_cudnn_where_sequences_have_any_length():
    batch, length = (Dim(name=name, smallest=1, usual=8, largest=64) for name in ("batch", "length"))
    texts = ModuleGraph(
        "texts",
        inputs=(
            TensorSpec(name="tokens", shape=(batch, length, 64), dtype="float32"),
            TensorSpec(name="is_token", shape=(batch, length), dtype="bool"),
        ),
        outputs=(TensorSpec(name="heads", shape=(batch, 2, length, 32), dtype="float32"),),
        build=Attention,
        fingerprint="texts",
    )
    attend = PyTorch().with_options(TorchOptions(device="cuda")).compile(texts, Precision.BF16)
    inputs = {"tokens": np.ones((2, 24, 64), np.float32), "is_token": np.ones((2, 24), bool)}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profiled:
        attend(inputs)
    kernels = [event.name for event in profiled.events()]
    assert any("attention" in name.lower() or "fmha" in name for name in kernels), kernels
    assert not any("cudnn" in name for name in kernels), kernels
