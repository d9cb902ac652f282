"""What the studio renders and asks behind its page: which models it may ask, what it refuses and
stores."""

from __future__ import annotations

import http.client
import json
import re
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from looktwice.eval import Folder, RunFolder, TaskError
from looktwice.extras.studio.backend import REQUEST_ERRORS, StudioBackend
from looktwice.extras.studio.draft import DEFAULT_MODELS, Draft, Slot
from looktwice.extras.studio.server import FIRST_SLOTS, StudioServer
from looktwice.pipelines import ConfigError, Mask, Picture
from tests.chat_server import ChatServer, chat_server
from tests.served_page import serve
from tests.tables import table

ELSEWHERE = {"use": "pipelines.models.ChatAPI", "model": "m", "url": "http://127.0.0.1:9/v1"}
STRANGER = r"^model: the studio may ask only \{ref: Pocket\}"
ZOOM = Slot("zoom", {"use": "prompting.views.ZoomOnMarks"})


@pytest.fixture
def backend(tmp_path: Path) -> StudioBackend:
    return StudioBackend(tmp_path)


def draft_of(backend: StudioBackend, **more: Any) -> Draft:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    name = backend.save_bytes(Picture(pixels).payload.data)
    marks = ({"label": "A", "x": 30, "y": 20},)
    return Draft(**{"images": (name,), "marks": marks, "stages": FIRST_SLOTS, **more})


def read(backend: StudioBackend, text: str) -> Draft:
    return draft_of(backend).with_study(text, backend.folder / "pasted.yaml", backend.models)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with chat_server() as started:
        yield started


def test_only_the_named_model_is_asked_and_only_once(
    backend: StudioBackend, server: ChatServer
) -> None:
    chat = {"use": "pipelines.models.ChatAPI", "model": "tiny", "url": server.url, "max_tokens": 9}
    backend.models = {**DEFAULT_MODELS, "tiny": chat}
    draft = draft_of(backend, model="tiny", choices=("cat", "dog"), answer="B", draws=2)
    assert "2 requests, 2 pictures" in backend.render(draft)["amount"]
    rows = backend.ask(draft)
    assert [row["draw"] for row in rows] == [0, 1] and rows[0]["reply"].startswith("(")
    asked = server.stats["replies"]
    assert backend.ask(draft) == rows and server.stats["replies"] == asked == 2
    assert all(sha in backend.picture_cache.entries for row in rows for sha in row["shas"])
    elsewhere = {**chat, "url": "http://127.0.0.1:9/v1"}
    caption = {"use": "prompting.turns.CaptionThenAnswer", "captioner": elsewhere}
    with pytest.raises(ConfigError, match=r"stages.look: the studio may ask only \{ref: Pocket\}"):
        backend.ask(replace(draft, stages=(Slot("look", caption), *draft.stages)))
    own = Slot("look", {**caption, "captioner": {"ref": "tiny"}})
    named = replace(draft, stages=(FIRST_SLOTS[0], own), draws=1)
    assert (
        "ref: tiny" in (shown := backend.render(named))["yaml"] and "2 requests" in shown["amount"]
    )
    assert len(backend.ask(named)) == 1 and "models:" in shown["yaml"]
    with pytest.raises(ConfigError, match="model: there is no 'big'; use one of Pocket, tiny"):
        backend.render(replace(draft, model="big"))


@table
def test_invalid_requests_are_refused(
    backend: StudioBackend, changes: dict[str, Any], sentence: str
) -> None:
    body = json.dumps({"draft": draft_of(backend).to_dict() | changes}).encode()
    for what in ("render", "pack"):
        with pytest.raises(REQUEST_ERRORS, match=sentence):
            backend.answer(what, body)


def test_a_pasted_study_contacts_no_server(backend: StudioBackend, server: ChatServer) -> None:
    model = {**ELSEWHERE, "url": server.url}
    text = json.dumps({"stages": {"ask": FIRST_SLOTS[1].node}, "each": [{"model": model}]})
    asked = server.stats["replies"]
    with pytest.raises(ConfigError, match=STRANGER):
        backend.ask(read(backend, text))
    assert server.stats["replies"] == asked


def test_the_cost_of_a_request_is_reported(backend: StudioBackend) -> None:
    marks = ({"label": "A", "x": 30, "y": 20}, {"label": "B", "x": 60, "y": 40})
    draft = draft_of(backend, marks=marks, stages=(FIRST_SLOTS[0], ZOOM, FIRST_SLOTS[1]))
    amount = backend.render(draft)["amount"]
    backend.ask(draft)
    (run,) = (backend.folder / "runs").glob("asked-*")
    (record,) = RunFolder(run).records().values()
    assert len(record.pictures) == 2
    tokens = sum(reply.usage.tokens_in for reply in record.replies)
    assert f"about {tokens} tokens in" in amount and "counted by Pocket" in amount
    first = backend.render(draft, 1)
    assert len(first["views"]) == 1 and first["amount"] == amount
    assert first["words"] == backend.render(draft)["words"]
    chat = replace(draft, model="far")
    backend.models = {**DEFAULT_MODELS, "far": ELSEWHERE}
    assert backend.render(chat)["amount"].endswith("tokens estimated")
    assert (
        backend.render(replace(draft, stages=FIRST_SLOTS[:1]))["amount"] == "no stage asks a model"
    )


def test_the_cost_of_a_study_covers_all_its_arms(backend: StudioBackend) -> None:
    draft = draft_of(backend, sweep={"stages.mark.radius": [9, 10, 12]}, draws=2)
    rows = backend.ask(draft)
    assert len(rows) == 6
    assert re.match(r"6 requests, 6 pictures, .* in 3 arms;", backend.render(draft)["amount"])


def test_a_mark_that_no_stage_draws_is_reported(backend: StudioBackend) -> None:
    box, point = {"x0": 5, "y0": 5, "x1": 30, "y1": 30}, {"x": 40, "y": 30}
    lasso = {"lasso": [[3, 3], [20, 3], [9, 20]]}
    cases: list[tuple[dict[str, Any], tuple[Slot, ...], str]] = [
        (box, (FIRST_SLOTS[0],), "no stage draws the box L; add Rect"),
        (point, (), "no stage draws the point L; add Circles"),
        (lasso, (FIRST_SLOTS[0],), "no stage draws the region L; add Cont"),
        (box, (ZOOM,), ""),
        (point, (FIRST_SLOTS[0],), ""),
    ]
    for mark, stages, note in cases:
        draft = draft_of(backend, marks=({"label": "L", **mark},), stages=(*stages, FIRST_SLOTS[1]))
        notes = [text for text in backend.render(draft)["notes"] if "draws" in text]
        assert bool(notes) == bool(note) and all(text.startswith(note) for text in notes)


def test_a_drawing_cut_by_a_crop_is_reported(backend: StudioBackend) -> None:
    large, small = (
        Slot("mark", {**FIRST_SLOTS[0].node, "radius": radius, "label": None}) for radius in (12, 5)
    )
    zoom = Slot("zoom", {**ZOOM.node, "crop": {"min_px": 16, "padding": 0}})
    cut = replace(draft_of(backend), stages=(large, zoom, FIRST_SLOTS[1]))
    assert "view 1 cuts off a part of what stage 'mark' draws" in backend.render(cut)["notes"]
    for stages in ((small, zoom, FIRST_SLOTS[1]), (large, FIRST_SLOTS[1])):
        assert backend.render(replace(cut, stages=stages))["notes"] == []


def test_views_before_a_failing_stage_are_shown(backend: StudioBackend) -> None:
    missing = Slot("zoom", {**ZOOM.node, "labels": ["Z"]})
    draft = draft_of(backend, stages=(FIRST_SLOTS[0], missing, FIRST_SLOTS[1]))
    with pytest.raises(ConfigError, match=r"stages\.zoom: .*Z"):
        backend.render(draft)
    shown = backend.render(draft, 1)
    assert len(shown["views"]) == 1 and shown["faults"][0].startswith("stages.zoom: ")


def test_a_lasso_becomes_a_mask_of_its_interior(backend: StudioBackend, tmp_path: Path) -> None:
    lasso = {"label": "L", "lasso": [[10, 10], [29, 10], [29, 19], [10, 19]], "image": 0}
    (tmp_path / "packed").mkdir()
    with zipfile.ZipFile(BytesIO(backend.pack_study(draft_of(backend, marks=(lasso,))))) as archive:
        archive.extractall(tmp_path / "packed")
    (item,) = Folder(tmp_path / "packed" / "studio")
    (mark,) = item.sample.marks
    assert isinstance(mark, Mask) and mark.pixels.sum() == 20 * 10 and mark.pixels[10, 10]
    again = Draft.from_item(item, {}, backend.save_picture)
    assert len(again.marks[0]["outline"]) == 4
    assert again.make_row([(80, 60)])["marks"] == [mark.to_dict()]


def test_results_of_stages_are_reused_unless_a_setting_changed(backend: StudioBackend) -> None:
    draft = draft_of(backend)
    first = backend.render(draft)["views"]
    assert len(backend.state_cache.entries) == 1 and backend.render(draft)["views"] == first
    larger = Slot("mark", {**FIRST_SLOTS[0].node, "radius": 20})
    assert backend.render(replace(draft, stages=(larger, FIRST_SLOTS[1])))["views"] != first
    assert backend.render(replace(draft, marks=({"label": "B", "x": 9, "y": 9},)))["views"] != first
    assert len(backend.state_cache.entries) == 3


def test_concurrent_requests_wait(backend: StudioBackend) -> None:
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(backend.ask, [draft_of(backend, choices=("cat", "dog"))] * 2)
    assert first == second and len(first) == 1


def test_a_fault_names_only_files_of_the_user(backend: StudioBackend) -> None:
    with pytest.raises(TaskError) as fault:
        backend.render(draft_of(backend, choices=("cat", "dog"), answer="Q"))
    (sentence,) = backend.explain_fault(fault.value)
    assert sentence.startswith("the answer 'Q' is neither one of the letters A, B")


def test_an_invalid_study_is_not_exported(backend: StudioBackend) -> None:
    far = Slot("zoom", {"use": "prompting.views.LongestSide", "pixels": 0})
    for stages, sentence in (
        ((far, *FIRST_SLOTS), r"stages\.zoom"),
        (FIRST_SLOTS[:1], "these stages cannot answer"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            backend.pack_study(draft_of(backend, stages=stages))


def test_a_text_without_stages_removes_none(backend: StudioBackend) -> None:
    for text in ("", "stages:", "stages: {}", "stages: 3"):
        with pytest.raises(ConfigError, match="stages: missing"):
            read(backend, text)


def test_uploads_are_limited_in_size(
    backend: StudioBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("looktwice.eval.page.serving.MAX_REQUEST_BYTES", 1000)
    with serve(
        StudioServer(backend, lambda _: Draft(), token="known").make_application()
    ) as address:
        connection = http.client.HTTPConnection(urlsplit(address).netloc)
        connection.putrequest("POST", "/known/upload")
        for name, value in {"X-Looktwice": "studio", "Content-Length": str(2000)}.items():
            connection.putheader(name, value)
        connection.endheaders(b"0" * 2000)
        assert connection.getresponse().status == 413
        connection.close()
