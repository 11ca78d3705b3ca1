"""The shapes of a user's model: what its file declares, and what the user says of the rest."""

import pytest
from mlbench_own_model.graphs import open_model
from mlbench_own_model.options import OwnModelOptions

from mlbench import Dim, UsageError


@pytest.fixture
def opened(models):
    return lambda name, **options: open_model(OwnModelOptions(model=models / name, **options))


def shapes(opened):
    sizes = (spec.shape for spec in (*opened.signature.inputs, *opened.signature.outputs))
    return [[size.name if isinstance(size, Dim) else size for size in shape] for shape in sizes]


def test_an_open_first_axis_that_all_tensors_share_is_the_batch(opened):
    found = opened("cnn.onnx")
    assert shapes(found) == [["batch", 3, 32, 32], ["batch", 10]]
    assert found.signature.has_batch
    assert found.signature.rows == 0


def test_ids_lie_below_the_rows_of_the_table_that_they_are_looked_up_in(opened):
    assert opened("hand.onnx").file.id_counts == {"ids": 50}
    assert opened("text.onnx", dims="seq=8").file.id_counts == {"ids": 100}
    assert opened("text.pt2", dims="s27=8").file.id_counts == {"ids": 100}


def test_a_range_gives_the_size_its_bounds(opened):
    (size,) = opened("text.onnx", dims="seq=16..128").signature.dims.values()
    assert (size.smallest, size.largest) == (16, 128)


def test_a_shape_fixes_the_samples_of_each_call(opened):
    found = opened("cnn.onnx", shapes="image=8x3x32x32")
    assert shapes(found) == [[8, 3, 32, 32], [8, 10]]
    assert (found.signature.has_batch, found.signature.rows) == (True, 8)


def test_a_program_keeps_the_bounds_that_it_was_exported_with(opened):
    assert opened("text.pt2", dims="s27=8").signature.largest_batch == 64


def test_weights_beside_the_file_count_for_its_fingerprint(models, tmp_path):
    for name in ("beside.onnx", "beside.bin"):
        (tmp_path / name).write_bytes((models / name).read_bytes())
    options = {"model": tmp_path / "beside.onnx", "dims": "columns=5"}
    before = open_model(OwnModelOptions(**options)).file.fingerprint
    weights = bytearray((tmp_path / "beside.bin").read_bytes())
    weights[0] ^= 1
    (tmp_path / "beside.bin").write_bytes(weights)
    assert open_model(OwnModelOptions(**options, seed=1)).file.fingerprint != before


def test_first_axes_without_a_name_are_the_batch_where_all_tensors_have_one(opened):
    found = opened("points.onnx")
    assert shapes(found) == [["batch", 4], ["batch"], ["batch", 6]]
    assert found.signature.has_batch


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dictionaries.onnx", {}, "output output_probability is a sequence or a map, not a tensor."),
        ("text.onnx", {}, "text.onnx leaves the size of seq open (ids: batch x seq). Give it, or a range: --dim"),
        ("text.onnx", {"dims": "seq=0"}, "dim seq is '0'. Give a size from 1 on"),
        ("text.onnx", {"dims": "seq=9..3"}, "dim seq is '9..3'."),
        ("text.onnx", {"dims": "seq"}, "dim 'seq' is not a name and a size."),
        ("text.onnx", {"dims": "seq=8,batch=1..4"}, "dim batch is the batch, and a range is given."),
        ("cnn.onnx", {"dims": "width=3"}, "cnn.onnx has no open size 'width'. Open are: batch."),
        ("cnn.onnx", {"shapes": "img=2"}, "cnn.onnx has no input 'img'. It has image: batch x 3 x 32 x 32."),
        ("cnn.onnx", {"shapes": "image=2x3x5x5"}, "shape image=2x3x5x5 does not fit the file. There it is image:"),
        ("cnn.onnx", {"shapes": "image=-1x3x32x32"}, "shape image=-1x3x32x32 does not fit the file."),
    ],
)
def test_what_does_not_fit_the_file_is_named(opened, name, options, message):
    with pytest.raises(UsageError) as error:
        opened(name, **options)
    assert message in str(error.value)


def test_a_file_that_is_no_model_is_named(tmp_path):
    for ending in (".onnx", ".pt2"):
        file = tmp_path / f"text{ending}"
        file.write_text("no model")
        with pytest.raises(UsageError, match=f"is not .*text{ending}"):
            open_model(OwnModelOptions(model=file))


def test_weights_that_are_not_beside_the_file_are_named(models, tmp_path):
    (tmp_path / "beside.onnx").write_bytes((models / "beside.onnx").read_bytes())
    with pytest.raises(UsageError, match=r"keeps weights in 'beside.bin', which is not beside it"):
        open_model(OwnModelOptions(model=tmp_path / "beside.onnx", dims="columns=5"))
