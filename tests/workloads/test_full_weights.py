"""The number of weights that a workload names is that of the full-size network, built without memory."""

from importlib import import_module

import pytest

from mlbench.discovery import Plugins

torch = pytest.importorskip("torch")


def language_network(package):
    import transformers

    graphs = import_module(f"{package}.graphs")
    kind = getattr(transformers, graphs.NETWORK.kind)
    return kind(kind.config_class(**dict(graphs.OFFICIAL_CONFIG)))


def bert():
    from mlbench_bert.graphs import Architecture, build_network

    return build_network(Architecture())


def resnet50():
    import torchvision

    return torchvision.models.resnet50()


LANGUAGE = {name: f"mlbench_{name.replace('-', '_').replace('.', '_')}" for name in ("gptj", "llama2-70b")}
LANGUAGE |= {"mixtral-8x7b": "mlbench_mixtral_8x7b", "llama3.1-8b": "mlbench_llama3_1_8b"}
BUILT = {"bert": bert, "resnet50": resnet50}


@pytest.mark.parametrize("name", [*LANGUAGE, *BUILT])
def test_the_number_of_weights_is_the_networks(name):
    with torch.device("meta"):
        network = language_network(LANGUAGE[name]) if name in LANGUAGE else BUILT[name]()
    assert Plugins.discover().workload(name).full_weights == sum(each.numel() for each in network.parameters())
