"""The kit for language models on the endpoint backend, in front of `transformers serve` with the kit's model."""

import pytest
from invoking import invoke
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.options import EndpointOptions

from mlbench.conformance import TextEngineConformance
from mlbench.conformance.text_model import write_model
from mlbench.contracts.precision import Precision

pytest.importorskip("aiohttp")
real_server = pytest.importorskip("test_real_server", reason="transformers serve needs transformers[serving]")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Serve the model that the command writes, and return what finds it."""
    home = tmp_path_factory.mktemp("server")
    write_model(home / "model")
    server = real_server.Server(home / "hugging_face", home / "model")
    try:
        server.began()
        yield EndpointOptions(url=server.url, model=str(home / "model"), prompt="text")
    finally:
        server.kill()


@pytest.mark.thorough("servers")
class TestServer(TextEngineConformance):
    precision = Precision("fp32")

    @pytest.fixture
    def backend(self, options):
        return Endpoint().with_options(options)


@pytest.mark.thorough("kit")
def test_the_command_passes_what_a_server_of_text_takes_and_counts_batches_as_refused(options):
    settings = (f"--set=backend.{name}={getattr(options, name)}" for name in ("url", "model", "prompt"))
    names = ("probes_at_once", "answers_all_at_once", "passes_loadgen_offline", "generates_the_models_tokens")
    chosen = (f"--only={name}" for name in names)
    result = invoke("check", "endpoint", "--precision", "fp32", *settings, *chosen)
    assert result.exit_code == 0, result.stdout
    assert result.stdout.splitlines()[-2:] == [
        "2 checks of batches of samples, refused: endpoint cannot run conformance: OpenAI's protocol is for language "
        "models. Choose gptj, llama2-70b, mixtral-8x7b or prompts, or give --set backend.protocol=kserve.",
        "endpoint: 2 of 2 checks passed, 2 refused.",
    ]
