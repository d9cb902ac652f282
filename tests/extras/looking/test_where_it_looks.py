"""Attention shares from the configuration to the page: a planted network, generated pictures."""

import csv
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.analysis.analyses import get_analysis
from looktwice.eval.cli import app
from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.extras.looking.measured import make_measurement_curves, make_part_curves
from looktwice.extras.networks import close_networks
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.marks import bounding_box
from tests import planted_network
from tests.optional import extension, needs_extras, optional, require_extras
from tests.paths import DOCS
from tests.tiny import tiny

optional("torch")
optional("transformers")
scenes = extension("scenes")

FILLED = (
    "tasks.filled={{use: eval.tasks.DoYouSeeMe, name: joint_shape_color, path: {}, missing:"
    " leave_out}}"
)
FOUND = "stages.mark={use: specialists.drawings.MarkAskedShapes}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The folder of a family's tiny network, built once."""
    root = tmp_path_factory.mktemp("networks")
    return cache(lambda family: str(tiny(family, root / family)))


def looktwice(command: str, *words: str) -> str:
    require_extras()  # the pictures of the configuration
    result = CliRunner().invoke(
        app, [command, "dysm_attention", "models.eyes.max_tokens=4", *words]
    )
    assert result.exit_code == 0 and "FAILED" not in result.output, result.output
    return result.output


def run_and_measure(runs: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the measurements of the samples of each task; checks that report.csv has them."""
    run, found = RunFolder(runs / "dysm_attention"), dict[str, list[dict[str, Any]]]()
    for record in run.records().values():
        assert not record.error
        found.setdefault(run.points[record.point].task, []).append(dict(record.measured or {}))
    with (run.path / "report.csv").open(newline="", encoding="utf-8") as lines:
        rows = {
            (row["task"], row["metric"]): float(row["value"])
            for row in csv.DictReader(lines)
            if row["value"]
        }
    for task, samples in found.items():
        for name in ("attention_share", "question_attention", "image_attention", "marked_area"):
            values = [sample[name] for sample in samples if name in sample]
            assert values and all(0 < value < 1 for value in values)
            assert rows[task, f"measured.{name}"] == pytest.approx(fmean(values), rel=1e-4)
    close_networks()
    return found


@pytest.mark.slow
@needs_extras
def test_the_attention_of_the_encoder_of_the_paper_is_measured_for_every_layer(
    folder: Callable[[str], str], tmp_path: Path
) -> None:
    words = (
        "stages.words=null",
        f"stages.encoder.attention.model={folder('phi4')}",
        "stages.encoder.apart=true",
        "models.eyes={use: pipelines.models.Pocket}",
        "tasks.outlines.n=3",
        "tasks.filled=null",
    )
    result = CliRunner().invoke(app, ["run", "dysm_attention", *words, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    close_networks()
    run = RunFolder(tmp_path / "dysm_attention")
    samples = [dict(record.measured or {}) for record in run.records().values()]
    names = [f"attention_share_layer_{layer}" for layer in (0, 1)]
    means = [fmean(sample[name] for sample in samples) for name in names]
    scored = score_table(run.path)
    (curve,) = make_part_curves(scored.scores[0], "outlines")
    ((points,),) = [[*curve.lines.values()]]
    assert (curve.factor, curve.of) == ("layer", "attention_share")
    layers, drawn, lows, highs = np.transpose(points)
    assert layers.tolist() == [0, 1] and drawn.tolist() == pytest.approx(means)
    assert (lows < drawn).all() and (drawn < highs).all()
    curves = make_measurement_curves(scored.scores[0], "outlines")
    assert curves and not [curve for curve in curves if "layer" in curve.factor]
    (published,) = get_analysis("published").tables(scored)
    share = 100 * fmean(sample["attention_share"] for sample in samples)
    assert [row[2] for row in published.table.rows] == ["9.79", f"{share:.2f}"]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llava_next", "qwen2_vl"])
def test_it_runs_on_generated_pictures(
    family: str, folder: Callable[[str], str], tmp_path: Path
) -> None:
    words = [f"models.eyes.model={folder(family)}", "tasks.outlines.n=2", "tasks.filled.n=2"]
    assert "no faults" in looktwice("check", *words)
    looktwice("run", *words, "--out", str(tmp_path))
    assert {task: len(samples) for task, samples in run_and_measure(tmp_path).items()} == {
        "outlines": 2,
        "filled": 2,
    }


@pytest.mark.slow
def test_it_runs_on_files_in_the_official_layout(
    folder: Callable[[str], str], tmp_path: Path
) -> None:
    """Shapes are found even if the pictures come without marks."""
    place = tmp_path / "2D_DoYouSeeMe" / "color_and_shape_disambiguation"
    place.mkdir(parents=True)
    task = scenes.GeneratedDoYouSeeMe("joint_shape_color", n=4, seed=3, marks="asked")
    lines, areas = ["filename,question,answer,sweep"], []
    for number, item in enumerate(task):
        cv2.imwrite(str(place / f"{number}.png"), item.sample.images[0].pixels[..., ::-1])
        lines.append(f'{number}.svg,{item.sample.question},{item.answer},"(2, 2)"')
        boxes = np.array([bounding_box(mark) for mark in item.sample.marks])
        areas += [np.prod(boxes[:, 2:] - boxes[:, :2], 1).sum() / 400**2] if len(boxes) else []
    (place / "dataset_info.csv").write_text("\n".join(lines) + "\n")
    words = [
        f"models.eyes.model={folder('qwen2_5_vl')}",
        "tasks.outlines=null",
        FILLED.format(tmp_path),
        FOUND,
    ]
    looktwice("run", *words, "--out", str(tmp_path))
    found = [sample["marked_area"] for sample in run_and_measure(tmp_path)["filled"] if sample]
    assert len(found) == len(areas) >= 2 and sorted(found) == pytest.approx(sorted(areas), rel=0.15)


@pytest.mark.slow
def test_it_runs_on_real_pictures(
    folder: Callable[[str], str], shared_data: Path, tmp_path: Path
) -> None:
    words = [
        f"models.eyes.model={folder('llava')}",
        "tasks.outlines=null",
        FILLED.format(shared_data / "dysm"),
        FOUND,
    ]
    looktwice("run", *words, "--out", str(tmp_path))
    assert [len(sample) for sample in run_and_measure(tmp_path)["filled"]] == [4] * 14


@pytest.mark.slow
def test_the_page_has_the_figures_of_a_network_whose_attention_is_known(tmp_path: Path) -> None:
    said = importlib.import_module(load_plugin(str(DOCS / "mattered.py"))).looks(tmp_path)
    close_networks()
    assert said in (DOCS / "mattered.md").read_text(encoding="utf-8")
    records = {record.sample: record for record in RunFolder(tmp_path / "looks").records().values()}
    apart = []
    for item in scenes.GeneratedDoYouSeeMe("joint_shape_color", n=108, marks="asked"):
        found = dict(records[item.sample.id].measured or {})
        assert bool(found) == (item.answer != "0")
        if found:
            apart.append(
                [
                    found["attention_share"],
                    compute_shares(item.sample.images[0].pixels, item.sample.marks),
                ]
            )
    shares, expected = np.transpose(apart)
    assert (
        len(apart) == 83
        and np.abs(shares - expected).max() < 0.01
        and abs(fmean(shares - expected)) < 0.001
        and f"| {fmean(shares):.3g}<br>" in said
    )


def compute_shares(pixels: Any, marks: Any) -> float:
    """Compute the share of ink for each of 16 x 16 patches, in windows of 4 x 4 and overall."""
    ink = (
        np.asarray(Image.fromarray(pixels).resize((224, 224), Image.Resampling.BICUBIC)) < 255
    ).any(2)
    pull = np.where(ink.reshape(16, 14, 16, 14).any((1, 3)), np.exp(planted_network.MORE), 1)
    windows = pull.reshape(4, 4, 4, 4)
    layers = (windows / windows.sum((1, 3), keepdims=True)).reshape(16, 16) / 16 + pull / pull.sum()
    inside = np.zeros((400, 400), bool)
    for mark in marks:
        x0, y0, x1, y1 = (round(edge) for edge in bounding_box(mark))
        inside[y0:y1, x0:x1] = True
    return float((np.kron(layers / 2, np.full((25, 25), 1 / 625)))[inside].sum())
