import json

import numpy as np
from mlbench_retinanet.anchors import anchors_by_level, map_shapes
from mlbench_retinanet.full_profile import ARCHITECTURE


def test_the_feature_maps_of_the_official_image_have_the_official_sizes():
    assert [height for height, _ in ARCHITECTURE.map_shapes] == [100, 50, 25, 13, 7]
    assert ARCHITECTURE.anchor_count == 120_087


def test_the_anchors_of_the_official_image_are_the_references(golden):
    case = json.loads((golden / "anchors_800" / "expected.json").read_text())
    anchors = np.concatenate(anchors_by_level((800, 800), ARCHITECTURE.map_shapes, ARCHITECTURE.anchor_bases))
    assert anchors.shape == (case["count"], 4)
    for index, *box in case["samples"]:
        assert anchors[index].tolist() == box
    assert anchors.sum(axis=0, dtype=float).tolist() == case["sum_xyxy"]


def test_the_grid_steps_of_the_coarse_levels_are_whole_pixels_and_not_the_strides():
    levels = anchors_by_level((800, 800), ARCHITECTURE.map_shapes, ARCHITECTURE.anchor_bases)
    assert [level[9, 0] - level[0, 0] for level in levels] == [8, 16, 32, 61, 114]


def test_an_image_that_is_not_square_has_the_references_anchors_too(golden):
    shapes = np.load(golden / "head_decode" / "inputs.npz")["level_shapes"]
    assert [tuple(shape) for shape in shapes] == map_shapes((96, 128), levels=5)
    anchors = np.concatenate(anchors_by_level((96, 128), map_shapes((96, 128), levels=5), ARCHITECTURE.anchor_bases))
    np.testing.assert_array_equal(anchors, np.load(golden / "head_decode" / "expected.npz")["anchors"])
