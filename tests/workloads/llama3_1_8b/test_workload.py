import json
import shutil
from dataclasses import replace

import pytest
import torch
from mlbench_llama3_1_8b import full_profile, mlbench_workloads
from mlbench_llama3_1_8b.graphs import OFFICIAL_CONFIG
from mlbench_llama3_1_8b.mini_profile import MiniProfile
from mlbench_llama3_1_8b.workload import Llama31, Llama31Options
from safetensors.torch import save_file
from sentence_data import install_sentences
from workload_variants import variants_of

import mlbench
from mlbench import DataError, UsageError, Weights
from mlbench.cli.fetch import choose_workloads
from mlbench.discovery import Plugins
from mlbench.fetching.sources import read_sources
from mlbench.planning.requests import combinations

full, _ = variants_of("llama3.1-8b")


class TestFilesInTheOfficialForm:
    """The full profile on small files, whose sizes stand in for the official ones."""

    @pytest.fixture
    def config(self):
        return {
            **{**OFFICIAL_CONFIG, "vocab_size": 1024, "hidden_size": 64},
            **{"bos_token_id": 1020, "eos_token_id": [1021, 1022, 1023]},
        }

    @pytest.fixture
    def options(self, golden, tmp_path, monkeypatch, config):
        as_published = {name: value for name, value in config.items() if name != "rope_parameters"}
        scaling = dict(config["rope_parameters"])
        as_published |= {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling}
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **as_published}))
        save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
        shutil.copy(MiniProfile.shipped().folder / "tokenizer.json", tmp_path)
        install_sentences(tmp_path / "nltk", "It rained. All slept.", monkeypatch)
        for kind in (full_profile.FullProfile, full_profile.EdgeProfile):
            monkeypatch.setattr(kind, "official_config", config)
            monkeypatch.setattr(kind, "official", replace(kind.official, articles=12))
        return {"data": golden / "cnn_eval.json", "weights": tmp_path}

    def test_a_native_engine_gets_the_folder(self, options):
        model = Llama31().model(full(**options))
        assert model.files == options["weights"]
        assert len(model.weights_fingerprint) == 64
        assert model.deviations == ()
        assert model.program.decoding.end_tokens == (1023, 1022, 1021)

    def test_without_sentences_there_is_no_run(self, options, monkeypatch):
        monkeypatch.setattr("nltk.sent_tokenize", lambda text: (_ for _ in ()).throw(LookupError))
        with pytest.raises(UsageError, match=r"the scores of llama3\.1-8b need NLTK's sentence data"):
            Llama31().dataset(full(**options))

    def test_the_newer_form_of_the_description_is_the_same_model(self, options, config):
        (options["weights"] / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
        assert Llama31().model(full(**options)).deviations == ()

    @pytest.mark.parametrize(
        ("entry", "complaint"),
        [
            ({"num_key_value_heads": 32}, "has num_key_value_heads = 32, expected 8"),
            ({"rope_scaling": None}, "has rope_parameters = .*, expected .*llama3"),
            ({"rope_theta": 10000.0}, "has rope_parameters = .*10000.0.*, expected .*500000.0"),
            ({"eos_token_id": 1023}, "has eos_token_id = 1023, expected"),
        ],
    )
    def test_another_architecture_is_refused(self, options, entry, complaint):
        path = options["weights"] / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **entry}))
        with pytest.raises(DataError, match=complaint):
            Llama31().model(full(**options))

    @pytest.mark.parametrize("ends", [None, 1023, [], ["x"], {"a": 1}])
    def test_a_smaller_set_without_end_tokens_is_refused(self, options, ends, tmp_path):
        path = options["weights"] / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "eos_token_id": ends}))
        (tmp_path / "smaller.toml").write_text("articles = 12\n")
        with pytest.raises(DataError, match=r"config\.json has eos_token_id = .*, expected a list of tokens"):
            Llama31().model(full(**options, smaller=tmp_path / "smaller.toml"))

    def test_a_tokenizer_of_another_model_is_refused(self, options, golden):
        shutil.copy(golden.parent / "llama2_70b" / "tokenizer.json", options["weights"])
        with pytest.raises(DataError, match="the model's tokenizer 1024"):
            full_profile.FullProfile(Llama31Options(**options), Weights.TRAINED).tokenizer()


def test_a_run_that_names_no_round_ends_in_a_line_that_says_which_rounds_have_it():
    with pytest.raises(UsageError, match=r"v4\.1 has no rules for workload 'llama3\.1-8b'") as refused:
        mlbench.run("llama3.1-8b", backend="null")
    assert refused.value.hint == "It is in v5.1, v6.0, v6.1: give --round."


@pytest.mark.parametrize(
    ("release", "wanted"),
    [
        ("v4.1", set()),
        ("v5.0", set()),
        (
            "v5.1",
            {
                *(("llama3.1-8b", scenario) for scenario in ("Offline", "Server", "Interactive")),
                *(("llama3.1-8b-edge", scenario) for scenario in ("Offline", "SingleStream")),
            },
        ),
    ],
)
def test_it_is_among_all_workloads_in_the_rounds_that_have_it(release, wanted):
    asked = combinations(Plugins.discover(), [], ["null"], [], round=release)
    found = {(each.workload, each.scenario) for each in asked}
    assert {each for each in found if each[0].startswith("llama3.1")} == wanted
    assert len({workload for workload, _ in found}) == {"v4.1": 9, "v5.0": 9, "v5.1": 10}[release]


def test_only_those_of_the_default_round_are_fetched_where_none_is_named():
    plugins = Plugins.discover()
    assert len(choose_workloads([], plugins)) == 9
    assert [each.name for each in choose_workloads(["llama3.1-8b-edge"], plugins)] == ["llama3.1-8b-edge"]
    for workload in mlbench_workloads():
        sources = read_sources(workload.sources)
        assert sources.round == "v5.1"
        assert "8B-Instruct" in sources.settings["weights"]
