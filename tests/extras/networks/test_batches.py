"""Batches, stored results and opened weights: no stall, no repeated work, isolated failures."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import MagicMock

import numpy as np
import pytest

from looktwice.eval import Facts, Robust
from looktwice.eval.records import Record, RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.extras.networks import Network, close_networks
from looktwice.extras.networks.hub import load_from_hub
from looktwice.extras.networks.opening import (
    Batcher,
    FetchError,
    Place,
    find_weights_file,
    open_shared,
)
from looktwice.pipelines import Item, Model, Sample
from looktwice.pipelines.config import Plan
from looktwice.pipelines.config.plan import add_id
from looktwice.pipelines.config.spec import NOT_IDENTITY, Arm
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.runtime.stores import (
    ResultStore,
    get_current_store,
    make_result_key,
    use_result_store,
)
from looktwice.pipelines.runtime.weights import WeightsError, hash_weights
from looktwice.pipelines.state import Stage, State, collect_remarks
from looktwice.specialists.answers import Count
from looktwice.specialists.results import DepthMap
from tests.tables import table


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Each test starts and ends without networks in memory or results on disk."""
    close_networks()
    with use_result_store(None):
        yield
    close_networks()


@pytest.fixture
def results(tmp_path: Path) -> Iterator[None]:
    """Results of specialists are stored on disk."""
    with use_result_store(tmp_path / "results"):
        yield


@pytest.fixture
def batchers() -> Iterator[Callable[..., Batcher[Any, Any]]]:
    """A function that makes batchers, which are closed at the end."""
    made: list[Batcher[Any, Any]] = []

    def make(*settings: Any, **more: Any) -> Batcher[Any, Any]:
        made.append(Batcher(*settings, **more))
        return made[-1]

    yield make
    for batcher in made:
        batcher.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "looktwice-batches"]


Make = Callable[..., Batcher[int, int]]


def results_of(batcher: Batcher[int, int], items: Sequence[int]) -> list[int | str]:
    """Request every item in its own thread, with a time limit."""
    results: list[int | str] = []
    with ThreadPoolExecutor(len(items)) as pool:
        for future in [pool.submit(batcher, item) for item in items]:
            try:
                results.append(future.result(timeout=100))
            except ValueError as exc:
                results.append(str(exc))
    return results


@pytest.mark.slow
def test_many_threads_get_their_own_results_and_share_batches(batchers: Make) -> None:
    sizes, first = list[int](), threading.Event()

    def forward(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        first.wait(0.2)  # the others arrive meanwhile
        return [item * item for item in items]

    assert results_of(batchers(forward, 8), range(33)) == [item * item for item in range(33)]
    assert max(sizes) == 8 and sum(sizes) == 33
    sizes.clear()
    first.set()
    alone = batchers(forward, 64)
    for number in range(50):
        alone(number)
    assert sizes == [1] * 50, "one caller never waits for a second"


def test_only_compatible_items_share_a_batch_and_none_is_lost(batchers: Make) -> None:
    batches: list[list[int]] = []

    def forward(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        return list(items)

    batcher = batchers(forward, 4, like=lambda item: item % 3)
    assert batcher.many(list(range(20))) == list(range(20))
    assert all(len({item % 3 for item in batch}) == 1 and len(batch) <= 4 for batch in batches)
    assert batches[0] == [0, 3, 6, 9]


CUDA = RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")


@pytest.mark.parametrize("trouble", [MemoryError(), CUDA], ids=["host", "cuda"])
def test_out_of_memory_halves_the_batch(batchers: Make, trouble: Exception) -> None:
    sizes: list[int] = []

    def forward(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        if len(items) > 5:
            raise trouble
        return list(items)

    batcher = batchers(forward, 16, name="Tiny")
    with collect_remarks() as heard:
        assert batcher.many(list(range(16))) == list(range(16))
    assert sizes in ([16, 8, 4, 4, 8, 4, 4], [16, 8, 4, 4, 4, 4])
    assert set(heard) == {"out of memory with 8 at once: Tiny continues with 4"}
    sizes.clear()
    batcher.many(list(range(16)))
    assert sizes == [4, 4, 4, 4] and batcher.max_batch == 4


def test_an_item_too_large_for_memory_fails_alone(batchers: Make) -> None:
    def forward(items: Sequence[int]) -> list[int]:
        raise MemoryError("no room")

    batcher = batchers(forward, 4)
    with pytest.raises(MemoryError, match="no room"):
        batcher.many([1, 2, 3])
    assert batcher.max_batch == 1


def test_a_failing_item_fails_alone(batchers: Make) -> None:
    def forward(items: Sequence[int]) -> list[int]:
        if 7 in items:
            raise ValueError("seven cannot be")
        return list(items)

    def like(item: int) -> int:
        if item == 9:
            raise ValueError("no size")
        return item % 2

    expected = [*range(7), "seven cannot be", 8, "no size", *range(10, 16)]
    assert results_of(batchers(forward, 8, like), range(16)) == expected


def test_a_wrong_number_of_results_is_an_error(batchers: Make) -> None:
    # run again one by one, each gets its own
    assert batchers(lambda items: [0], 4).many([1, 2]) == [0, 0]
    with pytest.raises(RuntimeError, match=r"Short returned 0 .* 1 "):
        batchers(lambda items: [], 4, name="Short").many([1])
    with pytest.raises(ValueError, match=r"batch .*0"):
        Batcher(lambda items: items, 0)


def test_closing_finishes_waiting_items_and_a_later_item_restarts(batchers: Make) -> None:
    going = threading.Event()

    def forward(items: Sequence[int]) -> list[int]:
        going.set()
        time.sleep(0.05)
        return list(items)

    batcher = batchers(forward, 2)
    with ThreadPoolExecutor(9) as pool:
        waiting = [pool.submit(batcher, item) for item in range(9)]
        going.wait(5)
        batcher.close()
        assert [future.result(timeout=10) for future in waiting] == list(range(9))
    assert batcher(3) == 3


def test_results_are_stored_unchanged_and_a_damaged_one_is_ignored(tmp_path: Path) -> None:
    assert get_current_store() is None
    with use_result_store(tmp_path):
        kept = get_current_store()
        assert kept is not None
        with use_result_store(None):
            assert get_current_store() is None
        assert get_current_store() == kept == ResultStore(tmp_path)
    assert get_current_store() is None and kept.get("abcd", DepthMap) is None
    kept.put("abcd", DepthMap(np.array([[1.5, np.nan]]), False))
    back = kept.get("abcd", DepthMap)
    assert back is not None and back.larger_is_nearer is False
    assert np.array_equal(back.values, [[1.5, np.nan]], equal_nan=True)
    assert kept.get("abce", DepthMap) is None
    (path,) = tmp_path.rglob("*.npz")
    for damaged in (b"", path.read_bytes()[:40], b"x" * 50):
        path.write_bytes(damaged)
        assert kept.get("abcd", DepthMap) is None


def test_keys_depend_on_pixels_settings_and_shapes() -> None:
    zeros = np.zeros((2, 3, 3), np.uint8)
    others = (zeros.reshape(3, 2, 3), zeros + np.uint8(1), zeros.astype(np.int8))
    keys = {
        make_result_key("a", zeros),
        make_result_key("b", zeros),
        make_result_key("a", zeros, "cat"),
    }
    assert len(keys | {make_result_key("a", other) for other in others}) == 6
    assert make_result_key("a", zeros) == make_result_key(
        "a", np.zeros((2, 6, 3), np.uint8)[:, ::2]
    )


FORWARDS: list[int] = []


@dataclass(frozen=True)
class Bright(Network[tuple[Pixels], DepthMap]):
    """Brightness as depth; records the size of every batch, and runs out of memory above `room`."""

    gain: float = 1.0
    room: int = field(default=99, metadata=NOT_IDENTITY)

    result: ClassVar[type[Any]] = DepthMap

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        return self.predict((image,))

    def open_network(self, place: Place) -> float:
        return 1.0

    def forward(self, network: Any, place: Place, items: Sequence[tuple[Pixels]]) -> list[DepthMap]:
        FORWARDS.append(len(items))
        if len(items) > self.room:
            raise MemoryError
        return [DepthMap(self.gain * item[0].mean(2), True) for item in items]


@dataclass(frozen=True)
class Greys:
    """Uniform pictures of several sizes; the question is their brightness, the answer a number."""

    n: int = 12

    @property
    def facts(self) -> Facts:
        return Facts("made")

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Item]:
        rng = np.random.default_rng(0)
        for i in range(self.n):
            pixels = rng.integers(0, 256, (48 + 8 * (i % 3), 96 - 8 * (i % 2), 3), np.uint8)
            words = ("cats", "dogs", "red boxes")[i % 3]
            yield Item(
                Sample(f"grey_{i}", f"How many {words} are there?", (Picture(pixels),)), str(i)
            )


@dataclass(frozen=True)
class MedianRule:
    """Answers with the median of the map of a network."""

    network: Any
    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        values = [self.network(image.pixels).values for image in state.sample.images]
        return state.replace(answer=f"{np.median(values):.0f}")


def run_study(folder: Path, rule: Stage, workers: int, n: int = 12) -> dict[str, Record]:
    """Run a study of one point as the command line does, and return its records by sample."""
    made = Arm("rule", {}, "greys", Greys(n), None, {"answer": rule}, Robust(), 1, 0, True, "", "")
    plan = Plan("study", (add_id(made),))
    Study(plan, folder, RunOptions(workers=workers), cache=folder / "cache")()
    return {record.sample: record for record in RunFolder(folder / "study").records().values()}


def plain(records: dict[str, Record]) -> dict[str, Any]:
    """Return the records without their times and confidences."""
    return {
        name: json.loads(replace(r, timings={}, confidence=None).to_line())
        for name, r in records.items()
    }


@pytest.fixture
def weights(tmp_path: Path) -> str:
    pytest.importorskip("torch")
    FORWARDS.clear()
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"one")
    return str(path)


def test_a_second_run_computes_nothing(tmp_path: Path, weights: str) -> None:
    rule = MedianRule(Bright(weights))
    first = run_study(tmp_path / "a", rule, 4)
    assert sum(FORWARDS) == len(first) == 12
    FORWARDS.clear()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "cache").rename(tmp_path / "b" / "cache")
    assert plain(run_study(tmp_path / "b", rule, 4)) == plain(first)
    assert FORWARDS == []


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("change", "again"),
    [({"batch": 3}, 0), ({"room": 50}, 0), ({"gain": 2.0}, 1), ({"dtype": "bfloat16"}, 1)],
)
def test_changes_are_computed_again(weights: str, change: dict[str, Any], again: int) -> None:
    pixels = np.full((9, 9, 3), 7, np.uint8)
    Bright(weights)(pixels)
    Bright(weights)(pixels.copy())
    assert FORWARDS == [1]
    replace(Bright(weights), **change)(pixels)
    assert len(FORWARDS) == 1 + again
    Path(weights).write_bytes(b"two")
    close_networks()  # a process hashes its weights once
    Bright(weights)(pixels)
    assert len(FORWARDS) == 2 + again


def test_nothing_is_hashed_without_a_store(weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("looktwice.extras.networks.network.make_result_key", None)
    monkeypatch.setattr("looktwice.extras.networks.network.hash_weights", None)
    assert Bright(weights)(np.full((9, 9, 3), 7, np.uint8)).values.mean() > 0


@pytest.mark.slow
def test_the_record_notes_that_memory_ran_out(tmp_path: Path, weights: str) -> None:
    class Slow(Bright):
        """Waits until others wait too, so that its batches are full."""

        def forward(self, *asked: Any) -> list[DepthMap]:
            time.sleep(0.1)
            return super().forward(*asked)

    records = run_study(tmp_path / "run", MedianRule(Slow(weights, room=1)), 8)
    assert [record.error for record in records.values()] == [""] * 12
    notes = "\n".join({note for record in records.values() for note in record.notes})
    assert re.fullmatch(r"(out of memory with \d at once: Slow continues with \d\n?)+", notes)
    assert max(FORWARDS) > 1 and FORWARDS[-1] == 1


@pytest.mark.slow
def test_eight_workers_and_one_write_the_same_records_without_a_stall(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from looktwice.extras.detection import GroundingDINO
    from tests.tiny import tiny

    detector = GroundingDINO(
        str(tiny("grounding_dino", tmp_path / "tiny")), batch=16, threshold=0.02, device="cpu"
    )
    rule = Count(detector, nothing="zero")
    many, one = (
        run_study(tmp_path / "eight", rule, 8, n=8),
        run_study(tmp_path / "one", rule, 1, n=8),
    )
    assert [record.error for record in many.values()] == [""] * 8
    assert plain(many) == plain(one)
    # a batch is rounded differently
    for name, record in one.items():
        assert many[name].confidence == pytest.approx(record.confidence, abs=1e-5)
    assert len({record.answer for record in one.values()}) > 1


def test_a_network_is_opened_once_for_many_threads() -> None:
    opened_: list[int] = []

    def open_() -> object:
        time.sleep(0.05)
        opened_.append(1)
        return object()

    with ThreadPoolExecutor(16) as pool:
        things = list(pool.map(lambda _: open_shared(("network", "x"), open_), range(16)))
    assert len(opened_) == 1
    assert all(thing is things[0] for thing in things)


def test_a_download_is_tried_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, file = list[int](), tmp_path / "weights"

    def open_() -> object:
        tried.append(1)
        raise FetchError("the hub is silent")

    for _ in range(2):
        with pytest.raises(WeightsError, match="the hub is silent"):
            open_shared(("network", "x"), open_)
        with pytest.raises(WeightsError, match="there is no weights file"):
            open_shared("file", lambda: find_weights_file(file))
    assert len(tried) == 1
    monkeypatch.setattr("looktwice.extras.networks.opening.RETRY_SECONDS", 0.0)
    with pytest.raises(WeightsError):
        open_shared(("network", "x"), open_)
    file.write_bytes(b"weights")
    assert open_shared("file", lambda: find_weights_file(file)) == file and len(tried) == 2


def test_a_slow_network_does_not_delay_another() -> None:
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(open_shared, "slow", lambda: release.wait(10))
        assert open_shared("quick", lambda: 1) == 1
        release.set()
        assert slow.result(timeout=10)


def test_closing_frees_networks_in_reverse_order() -> None:
    closed: list[str] = []

    @dataclass
    class Thing:
        name: str

        def close(self) -> None:
            closed.append(self.name)

    for name in ("network", "batcher"):
        open_shared(name, lambda name=name: Thing(name))  # type: ignore[misc]
    close_networks()
    assert closed == ["batcher", "network"]
    assert open_shared("network", lambda: 5) == 5


def test_missing_weights_and_devices_are_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"none\.pt; set model"):
        find_weights_file(tmp_path / "none.pt")
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    with pytest.raises(WeightsError, match=r"no folder '\./nowhere'"):
        load_from_hub("AutoModel", "./nowhere", None)
    with pytest.raises(WeightsError, match=r"AutoModel .* folder"):
        load_from_hub("AutoModel", str(tmp_path), None)
    assert Place.resolve("cpu", "auto") == Place("cpu", "float32")
    missing = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(WeightsError, match=f"'{missing}'"):
        Place.resolve(missing, "auto")


@table
def test_advice_about_hub_errors(
    monkeypatch: pytest.MonkeyPatch, trouble: str, advice: str
) -> None:
    transformers = pytest.importorskip("transformers")

    def refuse(*args: Any, **settings: Any) -> None:
        assert settings["trust_remote_code"] is False
        raise OSError(trouble)

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", refuse)
    monkeypatch.setattr("looktwice.extras.networks.hub.explain_unreachable_hub", lambda *asked: "")
    with pytest.raises(WeightsError) as caught:
        load_from_hub("AutoModel", "someone/some-network", "abc123")
    sentence = str(caught.value)
    assert sentence.startswith("someone/some-network: AutoModel ") and "\n" not in sentence
    assert all(part in sentence for part in ("abc123", trouble.splitlines()[0], advice))


@pytest.mark.parametrize("kind", ["", "hub", "socket", "value"])
def test_an_unresponsive_hub_is_asked_once(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    errors = pytest.importorskip("huggingface_hub.errors")
    transformers = pytest.importorskip("transformers")
    unknown, asked = "Name or service not known", list[dict[str, Any]]()
    raised = {
        "hub": errors.HfHubHTTPError("404", response=MagicMock()),
        "socket": ConnectionError(unknown),
        "value": ValueError("no id"),
    }

    def info(self: Any, repo: str, **settings: Any) -> None:
        asked.append(settings)
        if kind:
            raise raised[kind]

    def open_it(model: str, **settings: Any) -> str:
        assert settings.get("local_files_only", False) is (kind == "socket")
        if kind == "socket":
            raise OSError("not in the cache")
        return "opened"

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", info)
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", open_it)
    if kind == "socket":
        with pytest.raises(WeightsError, match=unknown):
            load_from_hub("AutoModel", "someone/some-network", "abc123")
    else:
        assert load_from_hub("AutoModel", "someone/some-network", "abc123") == "opened"
    assert asked == [{"revision": "abc123", "timeout": 10.0}]


def test_weights_are_hashed_by_content(tmp_path: Path) -> None:
    for name, data in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(data)
    a, b, c = (hash_weights(tmp_path / name) for name in "abc")
    assert a == b != c
