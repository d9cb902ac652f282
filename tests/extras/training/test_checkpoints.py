"""Checkpoints of a training are certified with the placebos of a study: the trainer's callback, and
the function behind it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from looktwice.extras.training import Rollouts, certify_checkpoint, trl
from tests.extras.training.studies import write_study

STUDY = """
task: {use: eval.tasks.LettersAndShapes, n: 8, width: 480, height: 360, largest: 30}
models: {policy: {use: eval.tasks.NearSighted, min_height: 20}}
model: policy
stages:
  form: {use: prompting.wording.AnswerLine, mark: "ANSWER:"}
  agent:
    use: prompting.agent.Agent
    tools: {zoom: {use: prompting.agent.Zoom}}
    bounds: {steps: 1}
read: {use: eval.readers.Marked}
contestants:
  without: {stages: {agent: {use: prompting.turns.Ask}}}
  full: {}
"""
BLACK = "  black: {stages: {agent: {results: {use: prompting.agent.BlackImages}}}}\n"
NAMES = ("without", "full", "black", "gain", "full over black")


def write(folder: Path, more: str = "") -> Path:
    path = folder / "study.yaml"
    path.write_text(STUDY + more)
    return path


def list_figures(*names: str) -> set[str]:
    return {f"task/{name}{end}" for name in names for end in ("", " low", " high")}


def test_a_checkpoint_gets_accuracies_and_a_certificate(tmp_path: Path) -> None:
    made = certify_checkpoint(write(tmp_path, BLACK), ["task.n=4"], tmp_path / "out", "step-5")
    assert {*made.figures} == list_figures(*NAMES)
    figures = {name: made.figures[f"task/{name}"] for name in NAMES}
    assert figures["full"] > figures["without"]
    assert figures["gain"] == pytest.approx(figures["full"] - figures["without"])
    assert figures["full over black"] == pytest.approx(figures["full"] - figures["black"])
    page = (tmp_path / "out" / "step-5" / "certificate.md").read_text()
    assert made.verdict and all(sentence in page for sentence in made.verdict)
    again = certify_checkpoint(write(tmp_path, BLACK), ["task.n=4"], tmp_path / "out", "step-5")
    assert again == made, "a repeated call resumes"


def test_without_placebos_there_are_accuracies(tmp_path: Path) -> None:
    made = certify_checkpoint(write(tmp_path), ["task.n=2"], tmp_path / "out", "step-1")
    assert {*made.figures} == list_figures("without", "full")
    assert not made.verdict and not (made.run / "certificate.md").exists()


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the packages that the integration imports."""
    datasets, transformers = ModuleType("datasets"), ModuleType("transformers")
    vars(datasets)["Dataset"] = SimpleNamespace(from_list=list)
    vars(transformers)["TrainerCallback"] = type("TrainerCallback", (), {})
    for module in (datasets, transformers):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("packages")
def test_the_callback_certifies_saved_checkpoints(tmp_path: Path) -> None:
    logged: list[dict[str, float]] = []
    place = "models.policy={use: eval.tasks.NeverLooks, tool: '{}'}"
    study = write(tmp_path)
    study.write_text(study.read_text().replace("n: 8", "n: 2"))
    callback = trl.make_certifier(study, place, tmp_path / "out", logged.append)
    settings = SimpleNamespace(output_dir=str(tmp_path / "trainer"))
    state = SimpleNamespace(global_step=10, is_world_process_zero=True, log_history=[])
    callback.on_save(settings, state, None, model=None)
    (made,) = callback.checkpoints
    assert made.run == tmp_path / "out" / "step-10"
    assert str(tmp_path / "trainer" / "checkpoint-10") in (made.run / "points.yaml").read_text()
    assert state.log_history == [{**made.figures, "step": 10}] and logged == [made.figures]
    state.is_world_process_zero = False
    callback.on_save(settings, state, None)
    assert callback.checkpoints == [made], "other processes certify nothing"


@pytest.mark.usefixtures("packages")
def test_the_dataset_has_a_row_per_question(tmp_path: Path) -> None:
    with Rollouts.load(write_study(tmp_path), "full", tmp_path / "run") as rollouts:
        assert [row["sample"] for row in trl.make_dataset(rollouts)] == [*rollouts.items]


def test_missing_packages_are_named_with_their_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("datasets", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    hint = r"pip install .*\[trl\]"
    with pytest.raises(ModuleNotFoundError, match=hint):
        trl.make_certifier("study.yaml", "{}", tmp_path)
    rollouts = Rollouts.load(write_study(tmp_path), "full", tmp_path / "run")
    with pytest.raises(ModuleNotFoundError, match=hint):
        trl.make_dataset(rollouts)
