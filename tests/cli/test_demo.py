"""What the demo says to type next."""

import pytest

from mlbench import Backend, Precision, Probe
from mlbench.cli.demo import _suggestions
from mlbench.discovery import Plugins


class Named(Backend):
    def __init__(self, name, precision, rank):
        self.name = name
        self.found = Probe(is_available=True, precisions=(precision,), rank=rank)

    def probe(self):
        return self.found

    def engine(self, model, plan):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("others", "suggested"),
    [
        ([("quick", Precision.BF16, 90), ("like", Precision.FP32, 10), ("best", Precision.FP32, 20)], "best"),
        ([("slow", Precision.BF16, 10), ("quick", Precision.BF16, 90)], "quick"),
    ],
)
def test_the_other_backend_is_the_best_whose_run_can_be_compared(a_run, others, suggested):
    record = a_run(backend="onnxruntime", precision="fp32")
    backends = [Named("onnxruntime", Precision.FP32, 60), *(Named(*each) for each in others)]
    plugins = Plugins(backends={each.name: each for each in backends})
    commands = [command for command, _ in _suggestions(record, plugins)]
    assert f"run resnet50 --backend {suggested} --scenario {record.scenario}" in commands
