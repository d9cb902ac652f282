"""Average precision from replies equals that of faster-coco-eval on the boxes themselves."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from looktwice.extras.grounding import PlacesScorer
from looktwice.extras.grounding.mean_ap import FIGURE_NAMES, MatchedScenes
from tests.extras.grounding.scenes import (
    NAMES,
    SIZE,
    Boxes,
    draw_scene,
    find_figures,
    make_row,
    make_scene,
    read_answer,
)
from tests.optional import optional

library = optional("faster_coco_eval")
SCENES = 200


def write_reply(number: int, found: Boxes) -> str:
    """Write boxes as a model does: in one of three forms, or as JSON if they have confidences."""
    if any("score" in entry for entry in found) or not found or number % 4 == 0:
        return f"```json\n{json.dumps(found)}\n```"
    form = (
        "<|object_ref_start|>{label}<|object_ref_end|><|box_start|>({0},{1}),({2},{3})<|box_end|>",
        "<|ref|>{label}<|/ref|><|det|>[[{0}, {1}, {2}, {3}]]<|/det|>",
        "\n- {label}: [{0}, {1}, {2}, {3}]",
    )[number % 4 - 1]
    return "".join(form.format(*entry["bbox_2d"], label=entry["label"]) for entry in found)


def compute_directly(scenes: list[tuple[Boxes, Boxes]]) -> Mapping[str, float]:
    """Return the package's own figures on the boxes of scenes."""
    kinds = {name: number for number, name in enumerate(NAMES, 1)}

    def entry(place: Mapping[str, Any], box: list[int], image: int) -> dict[str, Any]:
        left, top, right, bottom = map(float, box)
        sides = [left, top, right - left, bottom - top]
        return {"image_id": image, "category_id": kinds[place["label"]], "bbox": sides}

    annotations, results = list[dict[str, Any]](), list[dict[str, Any]]()
    for image, (true, found) in enumerate(scenes, 1):
        for place in true:
            plain = entry(place, place["box"], image)
            flags = {"id": len(annotations) + 1, "iscrowd": int(place["crowd"])}
            area = plain["bbox"][2] * plain["bbox"][3]
            annotations.append(plain | flags | {"area": area})
        for place in found:
            score = {"score": place.get("score", 1.0)}
            results.append(entry(place, place["bbox_2d"], image) | score)
    truth = library.COCO(
        {
            "images": [{"id": number} for number in range(1, len(scenes) + 1)],
            "annotations": annotations,
            "categories": [{"id": number, "name": name} for name, number in kinds.items()],
        }
    )
    evaluation = library.COCOeval_faster(truth, truth.loadRes(results), "bbox")
    evaluation.run()
    figures: Mapping[str, float] = evaluation.stats_as_dict
    return figures


@pytest.mark.slow
@pytest.mark.parametrize("scored", [True, False])
def test_replies_about_200_scenes_give_the_figures_of_the_package(scored: bool) -> None:
    rng = np.random.default_rng(5)
    scenes = [draw_scene(rng, scored) for _ in range(SCENES)]
    rows = [make_row(number, true, categories=NAMES) for number, (true, _) in enumerate(scenes)]
    replies = [write_reply(number, found) for number, (_, found) in enumerate(scenes)]
    answers = [read_answer(reply, SIZE, frame="pixels") for reply in replies]
    assert None not in answers
    figures = find_figures(PlacesScorer("boxes", mean_ap=True), answers, rows)
    direct = compute_directly(scenes)
    assert {name: figures[name] for name in FIGURE_NAMES} == {
        name: direct[theirs] for name, theirs in FIGURE_NAMES.items()
    }
    assert 0.1 < figures["ap"] < figures["ap_50"] < 0.9
    assert ("ap_reversed" in figures) == (not scored)


@pytest.mark.parametrize("scored", [True, False])
def test_draws_of_200_scenes_give_the_figures_of_the_package_on_them(scored: bool) -> None:
    rng = np.random.default_rng(6)
    scenes = [draw_scene(rng, scored) for _ in range(SCENES)]
    matched = MatchedScenes.from_scenes([make_scene(true, found) for true, found in scenes])
    assert matched is not None
    for _ in range(3):
        drawn = np.sort(rng.integers(0, SCENES, SCENES))
        direct = compute_directly([scenes[number] for number in drawn])
        assert matched.summarize(drawn) == {
            name: direct[theirs] for name, theirs in FIGURE_NAMES.items()
        }


BOX = [10, 10, 60, 60]
FOUND = '[{"label": "cup", "box": [10, 10, 60, 60]}]'
AWAY = '[{"label": "cup", "box": [300, 300, 360, 360]}]'
CUP = {"label": "cup", "box": BOX}


def test_without_confidences_average_precision_depends_on_the_order_of_images() -> None:
    rows = [make_row(0, [CUP]), make_row(1, [CUP])]
    scorer = PlacesScorer("boxes", mean_ap=True)
    one = find_figures(scorer, [FOUND, AWAY], rows)
    other = find_figures(scorer, [AWAY, FOUND], rows)
    assert one["ap"] == pytest.approx(2 * other["ap"])
    assert one["ap_reversed"] == other["ap"] and other["ap_reversed"] == one["ap"]
    assert one["confidence_given"] == 0
    sure = FOUND.replace("}", ', "score": 0.9}'), AWAY.replace("}", ', "score": 0.1}')
    scored = find_figures(scorer, sure, rows)
    assert scored["ap"] == one["ap"] and "ap_reversed" not in scored


def test_places_to_ignore_and_crowds_need_not_be_found() -> None:
    scorer = PlacesScorer("boxes", mean_ap=True)
    second = {"label": "cup", "box": [100, 100, 200, 200]}
    both = (
        '[{"label": "cup", "box": [10, 10, 60, 60]}, {"label": "cup", "box": [100, 100, 200, 200]}]'
    )
    part = (
        '[{"label": "cup", "box": [10, 10, 60, 60]}, {"label": "cup", "box": [110, 110, 130, 130]}]'
    )
    for flags, answer, ap in [
        ({}, FOUND, 0.505),
        ({}, both, 1),
        ({"ignore": True}, FOUND, 1),
        ({"ignore": True}, both, 1),
        ({"ignore": True}, part, 1),
        ({"crowd": True}, FOUND, 1),
        ({"crowd": True}, part, 1),
    ]:
        figures = find_figures(scorer, [answer], [make_row(0, [CUP, second | flags])])
        assert figures["ap"] == pytest.approx(ap, abs=0.001), (flags, answer)


def test_images_without_a_readable_answer_count_as_empty() -> None:
    rows = [make_row(0, [CUP]), make_row(1, [CUP])]
    figures = find_figures(PlacesScorer("boxes", mean_ap=True), [FOUND, None], rows)
    assert figures["ap"] == pytest.approx(0.505, abs=0.001)
    assert find_figures(PlacesScorer("boxes", mean_ap=True), ["[]", "[]"], rows)["ap"] == 0


def test_nothing_true_gives_no_average_precision() -> None:
    figures = find_figures(PlacesScorer("boxes", mean_ap=True), ["[]"], [make_row(0, [])])
    assert "ap" not in figures
