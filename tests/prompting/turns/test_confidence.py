"""Confidence from the likelihoods of the choices: a planted calibration is recovered, `When` saves
calls as counted by the server, and votes cycle through styles."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from looktwice.eval import evaluate
from looktwice.eval.readers import Robust
from looktwice.eval.scoring.metrics import collect_measurements
from looktwice.eval.tasks import Facts, MarkedScenes
from looktwice.pipelines import Pipeline
from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Message, Reply
from looktwice.pipelines.models import ChatAPI, Pocket
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item, Sample
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask, Vote, When
from looktwice.prompting.turns.ask import add_confidence
from looktwice.prompting.wording import MultipleChoice
from tests.optional import extension
from tests.prompting.scenes import ScriptedReplies, plain, start

routing = extension("looking.measured")

LEVELS = (0.4, 0.55, 0.7, 0.85, 0.97)
"""The confidences that the server reports, and the accuracy at each."""
EACH = 40


class CalibratedModel(BaseHTTPRequestHandler):
    """Replies A with the confidence in the question, or with certainty if asked twice."""

    requests = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests += 1
        words = json.dumps(body["messages"])
        level = float(words.split("level ")[1].split(" ")[0])
        sure = 1.0 if len(body["messages"]) > 1 else level
        shares = {"(A": 0.9 * sure, "B": 0.6 * (1 - sure), " C": 0.3 * (1 - sure), "The": 0.1}
        top = [{"token": t, "logprob": math.log(max(p, 1e-9))} for t, p in shares.items()]
        tokens = [{"token": "I", "logprob": 0.0}, {**top[0], "top_logprobs": top}]
        choice: dict[str, Any] = {"message": {"content": "(A)"}, "finish_reason": "stop"}
        choice["logprobs"] = {"content": tokens} if body.get("logprobs") else None
        data = json.dumps({"model": "p", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *given: Any) -> None:
        """Log nothing."""


@pytest.fixture
def model() -> Iterator[ChatAPI]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), CalibratedModel)
    CalibratedModel.requests = 0
    Thread(target=server.serve_forever, daemon=True).start()
    yield ChatAPI("p", f"http://127.0.0.1:{server.server_port}/v1")
    server.shutdown()
    server.server_close()


@dataclass(frozen=True)
class Questions:
    """At each level, as many questions are right as the confidence says."""

    @cached_property
    def items(self) -> list[Item]:
        items = []
        for level in LEVELS:
            for number in range(EACH):
                key = "A" if number < round(level * EACH) else "B"
                sample = Sample(
                    f"{level}-{number}",
                    f"At level {level} of {number}?",
                    (plain(),),
                    ("red", "green", "blue"),
                )
                items.append(Item(sample, key))
        return items

    @property
    def facts(self) -> Facts:
        return Facts("made", "by construction")

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)


@pytest.mark.slow
def test_a_planted_calibration_is_recovered(model: ChatAPI, tmp_path: Path) -> None:
    ask = Ask(confidence="choices")
    (run,) = evaluate(Questions(), {"ask": ask}, model, out=tmp_path / "run").scores
    measured = collect_measurements(run.points[0])
    told = measured["confidence"]
    for level in LEVELS:
        mine = [value for name, value in told.items() if name.startswith(f"{level}-")]
        assert mine == pytest.approx([level] * EACH)
    masses = [*measured["choice_mass"].values()]
    assert masses == pytest.approx([0.9] * len(masses))
    (risk,) = routing.find_risks(run)
    right = [share.value for share in risk.accuracies]
    assert right == pytest.approx([0.95, 0.87, (39 + 34 + 28 + 16.5) / 150, 0.695])  # by hand
    assert risk.area < risk.random_area


@pytest.mark.slow
@pytest.mark.parametrize(("below", "more"), [(0.0, 0), (0.8, 3 * EACH), (1.0, 5 * EACH)])
def test_when_asks_again_only_if_confidence_is_low(
    below: float, more: int, model: ChatAPI, tmp_path: Path
) -> None:
    ask = Ask(confidence="choices")
    stages = Pipeline({"ask": ask, "again": When(ask, below)})
    (run,) = evaluate(Questions(), {"arm": stages}, model, out=tmp_path / "run").scores
    assert CalibratedModel.requests == len(LEVELS) * EACH + more
    measured = collect_measurements(run.points[0])
    again, sure = measured["looked_again"], measured["confidence"]
    assert sum(map(float, again.values())) == more
    assert all(float(sure[name]) >= below for name in again if not again[name])


@pytest.mark.parametrize(
    ("candidates", "confidence", "mass"),
    [
        ([{"red": math.log(0.3), "green": math.log(0.1)}], 0.75, 0.4),
        (
            [{"The": 0.0}, {"(": 0.0, "A": -9.0}, {"▁B": math.log(0.5), " (A": math.log(0.5)}],
            0.5,
            1,
        ),
        ([{"A": math.log(0.2), "(A": math.log(0.2), "C": math.log(0.1)}], 0.8, 0.5),
        ([{"A": 0.0}], 1.0, 1.0),
        ([{"a": 0.0, "dog": -1.0}], None, None),
        ([], None, None),
    ],
)
def test_the_first_token_that_names_a_choice_counts(
    candidates: list[dict[str, float]], confidence: float | None, mass: float | None
) -> None:
    state = start(choices=("red", "green", "blue"))
    after = add_confidence(state, Reply("A", logprobs=tuple(candidates)))
    assert after.confidence == (confidence and pytest.approx(confidence))
    assert after.measures.get("choice_mass") == (mass and pytest.approx(mass))
    assert ("no likelihood" in "".join(after.notes)) == (confidence is None)


def test_unknown_confidence_counts_as_low() -> None:
    heard = ScriptedReplies("A")
    again = When(Ask(), 0.5)
    assert again(start(), heard).measures["looked_again"] == 1
    assert again.asks and not When(Circles()).asks
    assert When(Circles(), 0.9)(start().replace(confidence=0.9), NoModel()).measures == {
        "looked_again": 0
    }


def test_only_confidence_requests_likelihoods() -> None:
    heard = ScriptedReplies("A")
    for stage in (Ask(), Ask(confidence="choices")):
        stage(start(), heard)
    assert [options.logprobs for *_, options in heard.calls] == [None, 20]


def test_votes_cycle_through_the_styles() -> None:
    scene = start(Point("A", 60, 50), choices=("red", "green"))
    heard = ScriptedReplies("A", "B", "A")
    styles = tuple(Circles(color=color) for color in ("red", "blue"))
    after = Vote(Robust(), n=3, styles=styles)(scene, heard)
    shown = [messages[-1].views[0].pixels for messages, *_ in heard.calls]
    assert np.array_equal(shown[0], shown[2]) and not np.array_equal(shown[0], shown[1])
    assert after.answer == "A"
    assert after.confidence == pytest.approx(2 / 3)
    assert isinstance(heard.calls[0][0][-1], Message)


@pytest.mark.slow
def test_the_small_model_is_calibrated_enough_to_know_its_errors(tmp_path: Path) -> None:
    task = MarkedScenes("shape", 80, controls={"size": [40, 12], "things": 3})
    mark, ask = Circles(radius=28, color="red"), Ask(confidence="choices")
    arm = Pipeline({"mark": mark, "choose": MultipleChoice(), "ask": ask})
    (run,) = evaluate(task, {"pocket": arm}, Pocket(), out=tmp_path / "run").scores
    (risk,) = routing.find_risks(run)
    assert risk.area < 0.75 * risk.random_area
