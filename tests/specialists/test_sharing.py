"""Equal pixels are analysed once in a run, and once across commands if that is slow."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.stores import MemoryCache, get_current_store, use_result_store
from looktwice.pipelines.state import collect_remarks, remark
from looktwice.specialists import sharing
from looktwice.specialists.results import Boxes, Faces
from looktwice.specialists.sharing import MIN_STORED_SECONDS, look_once
from tests.optional import extension

detection = extension("detection")

PICTURE = np.random.default_rng(0).integers(0, 255, (24, 32, 3), np.uint8)
LOOKS: list[str] = []
NOW = [0.0]

DETECTOR = """
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from looktwice.specialists import sharing
from looktwice.specialists.results import Boxes


@dataclass(frozen=True)
class Mine:
    wide: int = 30

    def __call__(self, pixels, words=None, /):
        with Path("looks.txt").open("a") as file:
            file.write("x")
        sharing.time.sleep(0.05)
        return Boxes(np.array([[2, 2, self.wide, 30]]), np.ones(1), np.array(["thing"]))
"""
STUDY = """
task: {use: eval.tasks.Folder, path: .}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {ask: {use: prompting.turns.Ask}}
contestants:
  zoom: {stages: {zoom: {use: prompting.views.ZoomOnDetections, before: ask, detector: DETECTOR}}}
  marks: {stages: {mark: {use: prompting.markers.SetOfMark, before: ask, detector: DETECTOR}}}
  count: {replace: true, stages: {answer: {use: specialists.answers.Count, detector: DETECTOR}}}
"""


@dataclass(frozen=True)
class Slow:
    """A specialist that takes a while and counts its calls."""

    seconds: float = 0.0
    gives: Any = 0.5
    fails: int = 0
    says: str = ""
    model: Path | None = None

    def __call__(self, pixels: Pixels, /) -> Any:
        LOOKS.append(threading.current_thread().name)
        pass_time(self.seconds)
        if self.says:
            remark(self.says)
        if len(LOOKS) <= self.fails:
            raise RuntimeError("out of luck")
        given = {"array": np.full(3, 0.5), "list": [1]}
        return given.get(self.gives, self.gives)


@pytest.fixture(autouse=True)
def _reset_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the calls, and mock the clock so that a call takes exactly its stated time."""
    LOOKS.clear()
    clock = SimpleNamespace(perf_counter=lambda: NOW[0], sleep=pass_time)
    monkeypatch.setattr(sharing, "time", clock)


def pass_time(seconds: float) -> None:
    """Yield to other threads, so that this takes a while."""
    time.sleep(seconds)
    NOW[0] += seconds


def looks() -> int:
    return len(Path("looks.txt").read_text())


def run(*words: str) -> None:
    result = CliRunner().invoke(app, ["run", "study.yaml", *words])
    assert result.exit_code == 0 and "9 new" in result.output, result.output


def write_study(detector: str) -> None:
    """Write three arms that ask one detector about three pictures, in the working folder."""
    Path("study.yaml").write_text(STUDY.replace("DETECTOR", f"{{use: {detector}}}"))
    rows = []
    for number in range(3):
        Image.fromarray(np.full((60, 80, 3), 50 * number, np.uint8)).save(f"{number}.png")
        row = {"id": f"q{number}", "image": f"{number}.png", "choices": ["1", "2"]}
        rows.append(row | {"question": "How many?"})
    Path("samples.jsonl").write_text("\n".join(map(json.dumps, rows)))


def test_a_detector_before_three_arms_runs_once_per_picture_across_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a custom class that does not mention sharing."""
    monkeypatch.chdir(tmp_path)
    Path("counted_looks.py").write_text(DETECTOR)
    write_study("counted_looks.Mine")
    plugin = ("--plugin", "counted_looks.py")
    run(*plugin)
    assert looks() == 3
    run("--again=all", *plugin)
    assert looks() == 3
    run("--again=all", "contestants.zoom.stages.zoom.detector.wide=20", *plugin)
    assert looks() == 6


def test_two_runs_that_end_in_any_order_leave_no_store_open(tmp_path: Path) -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(use_result_store(tmp_path / "first"))
    second.enter_context(use_result_store(tmp_path / "second"))
    first.close()
    assert (store := get_current_store()) is not None and store.folder == tmp_path / "second"
    second.close()
    assert get_current_store() is None


def test_many_threads_run_it_once_and_a_failure_is_not_stored(tmp_path: Path) -> None:
    with use_result_store(tmp_path / "once"), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: look_once(Slow(0.1), PICTURE), range(8))) == [0.5] * 8
    assert len(LOOKS) == 1
    LOOKS.clear()

    def look(_: int) -> float | str:
        try:
            return float(look_once(Slow(0.05, fails=2), PICTURE))
        except RuntimeError as exc:
            return str(exc)

    with use_result_store(tmp_path / "fails"), ThreadPoolExecutor(4) as pool:
        assert sorted(map(str, pool.map(look, range(4)))) == ["0.5"] * 2 + ["out of luck"] * 2
    assert len(LOOKS) == 3


def test_results_depend_on_settings_pixels_words_and_files(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1")
    with use_result_store(tmp_path / "results"):
        for specialist in (Slow(), Slow(says="x"), Slow(model=tmp_path / "weights")):
            for pixels in (PICTURE, PICTURE[:, ::-1], PICTURE[:, ::-1].copy()):
                look_once(specialist, pixels)
    assert len(LOOKS) == 3 * 2


def test_slow_results_are_stored_until_their_files_change(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1")

    def look(specialist: Slow) -> int:
        with use_result_store(tmp_path / "results"):
            look_once(specialist, PICTURE)
        return len(LOOKS)

    costly = Slow(2 * MIN_STORED_SECONDS, model=tmp_path / "weights")
    assert [look(costly), look(costly), look(Slow()), look(Slow())] == [1, 1, 2, 3]
    (tmp_path / "moved").mkdir()
    (tmp_path / "weights").rename(tmp_path / "moved" / "weights")
    moved = Slow(2 * MIN_STORED_SECONDS, model=tmp_path / "moved" / "weights")
    assert look(moved) == 3
    (tmp_path / "weights").write_bytes(b"2")
    assert look(costly) == 4


def test_arrays_are_shared_read_only_and_stored(tmp_path: Path) -> None:
    specialist = Slow(2 * MIN_STORED_SECONDS, gives="array")
    for _ in range(2):
        with use_result_store(tmp_path):
            found: NDArray[np.float64] = look_once(specialist, PICTURE)
            assert found is look_once(specialist, PICTURE) and found.tolist() == [0.5] * 3
    assert len(LOOKS) == 1


@dataclass(frozen=True)
class NumberedLook:
    """Returns the number of the call."""

    weights: tuple[Path, ...] = ()

    def __call__(self, *inputs: Any) -> float:
        LOOKS.append("given")
        return float(len(LOOKS))


@dataclass(frozen=True)
class Same:
    """Returns the picture unchanged."""

    def __call__(self, pixels: Pixels, /) -> Pixels:
        return pixels


def test_results_depend_on_lists_of_pictures_defaults_and_paths_in_lists(tmp_path: Path) -> None:
    """Regression: long arrays in a list were compared by their printed start and end."""
    plain = np.zeros((100, 100, 3), np.uint8)
    dotted = plain.copy()
    dotted[50, 50] = 9
    weights = [tmp_path / folder / "weights" for folder in "ab"]
    for file in weights:
        file.parent.mkdir()
        file.write_text(str(file))
    with use_result_store(tmp_path / "results"):
        assert look_once(NumberedLook(), [plain]) != look_once(NumberedLook(), [dotted])
        assert look_once(NumberedLook(), plain, None, "x") != look_once(NumberedLook(), plain, "x")
        assert look_once(NumberedLook(), plain, None) == look_once(NumberedLook(), plain)
        first, second = (look_once(NumberedLook((file,)), plain) for file in weights)
    assert first != second


def test_mutable_results_are_not_shared(tmp_path: Path) -> None:
    picture = PICTURE.copy()
    with use_result_store(tmp_path):
        assert look_once(Slow(gives="list"), PICTURE) is not look_once(Slow(gives="list"), PICTURE)
        look_once(lambda pixels: LOOKS.append("lambda"), PICTURE)
        look_once(Slow(), Image.fromarray(PICTURE))
        assert not look_once(Same(), picture).flags.writeable
    assert len(LOOKS) == 4 and picture.flags.writeable


def test_a_note_reaches_all_users_of_a_shared_result(tmp_path: Path) -> None:
    with use_result_store(tmp_path):
        for _ in range(2):
            with collect_remarks() as remarks:
                look_once(Slow(says="half of it is dark"), PICTURE)
            assert remarks == ["half of it is dark"]
    assert len(LOOKS) == 1


@dataclass(frozen=True)
class OneFace:
    """Finds a face after a while."""

    def __call__(self, pixels: Pixels, /) -> Faces:
        pass_time(2 * MIN_STORED_SECONDS)
        return Faces(np.array([[1, 1, 5, 5]]), np.ones(1), np.empty((1, 0)))


def test_composed_results_are_stored_once_by_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with use_result_store(tmp_path / "boxes"):
        boxes = look_once(detection.FaceBoxes(OneFace()), PICTURE)
    assert isinstance(boxes, Boxes) and len(list(tmp_path.rglob("*.npz"))) == 1
    asked = list[tuple[int, ...]]()

    def faces(self: Any, pixels: Pixels) -> list[Any]:
        asked.append(pixels.shape)
        return [(9, 2.0, 2.0, 12.0)]

    monkeypatch.setattr(detection.FaceCascade, "_detect_faces", faces)
    with use_result_store(tmp_path / "cascade"):
        for words in ((), (None,), (["face"],)):
            assert len(look_once(detection.FaceCascade(), PICTURE, *words)) == 1
    assert len(asked) == 1


def test_the_memory_is_bounded_and_evicts_the_least_recently_used() -> None:
    memory = MemoryCache(max_bytes=100)

    def find(key: str) -> tuple[str, int]:
        LOOKS.append(key)
        return key, 40

    for key in "abcdaee":
        assert memory.get_or_compute(key, partial(find, key)) == key
    assert "".join(LOOKS) == "abcdae" and list(memory.entries) == ["a", "e"] and memory.size == 80
    memory.get_or_compute("large", lambda: ("x", 101))
    assert not memory.entries and memory.size == 0 and not memory.key_locks
