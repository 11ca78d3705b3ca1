from pathlib import Path

import numpy as np
import pytest
from mlbench_bert.dataset import RandomWindows, SquadWindows, calibration_samples
from mlbench_bert.squad import Windows

from mlbench import DataError

GOLDEN = Path(__file__).parents[2] / "data" / "bert" / "features"


def golden_windows(count=16):
    return SquadWindows(GOLDEN / "dev.json", GOLDEN / "vocab.txt", vocabulary_size=298, windows=Windows(), count=count)


def test_every_window_is_a_sample_and_all_stay_in_memory():
    data = golden_windows()
    data.load([3])
    assert data.count == data.performance_count == 16
    assert data.sample(3) is data.features[3].tokens


def test_another_number_of_windows_than_the_official_one_is_refused():
    with pytest.raises(DataError, match="gives 16 windows, not 10833"):
        golden_windows(count=10833)


class TestCalibration:
    def chosen(self, tmp_path, text):
        path = tmp_path / "list.txt"
        path.write_text(text)
        return calibration_samples(path, golden_windows())

    def test_a_list_of_indices_names_windows(self, tmp_path):
        data = golden_windows()
        first, second = self.chosen(tmp_path, "5\n0\n")
        assert first.input_ids.tolist() == data.sample(5).input_ids.tolist()
        assert second.input_ids.tolist() == data.sample(0).input_ids.tolist()

    def test_a_list_of_question_ids_names_all_their_windows(self, tmp_path):
        data = golden_windows()
        wanted = [feature.tokens.input_ids.tolist() for feature in data.features if feature.question == 2]
        assert len(wanted) > 1
        assert [sample.input_ids.tolist() for sample in self.chosen(tmp_path, "v0000002\n")] == wanted

    def test_an_unknown_name_is_quoted(self, tmp_path):
        with pytest.raises(DataError, match="neither a window nor a question of the data: '16'"):
            self.chosen(tmp_path, "3\n16\n")

    def test_an_empty_list_is_refused(self, tmp_path):
        with pytest.raises(DataError, match="is empty"):
            self.chosen(tmp_path, "\n")

    def test_a_missing_list_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"cannot be read: .*missing\.txt"):
            calibration_samples(tmp_path / "missing.txt", golden_windows())


class TestRandomWindows:
    def test_there_are_as_many_as_official_ones_of_mixed_lengths(self):
        data = RandomWindows()
        lengths = [len(data.sample(index).input_ids) for index in range(data.count)]
        assert data.count == data.performance_count == 10833
        assert (min(lengths), max(lengths)) == (40, 384)
        assert 150 < np.mean(lengths) < 200

    def test_ids_and_segments_are_what_the_network_takes(self):
        sample = RandomWindows().sample(0)
        assert sample.input_ids.dtype == sample.segment_ids.dtype == np.int64
        assert sample.input_ids.max() < 30522
        assert sample.segment_ids[0] == 0
        assert sample.segment_ids[-1] == 1

    def test_they_are_the_same_each_time(self):
        assert RandomWindows().sample(7).input_ids.tolist() == RandomWindows().sample(7).input_ids.tolist()
