"""`looktwice cache`: the contents of the reply cache, and pruning that keeps recorded replies."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from looktwice.eval.recorded.reply_cache import parse_size
from looktwice.pipelines.model import Reply
from looktwice.pipelines.models.cache import MAX_INLINE_BYTES, Store
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study


def write_chance(folder: Path) -> Path:
    """A study that asks no model."""
    path = folder / "chance.yaml"
    answer = "stages: {answer: {use: specialists.answers.Chance}}"
    path.write_text(f"task: {{use: eval.tasks.Photos, kind: jigsaw, n: 1}}\n{answer}\n")
    return path


def make_older(folder: Path, seconds: float = 7200) -> None:
    with closing(sqlite3.connect(folder / "replies.sqlite")) as connection, connection:
        connection.execute("UPDATE replies SET stored = stored - ?", (seconds,))


def test_replies_are_counted_by_model_and_only_unused_ones_are_removed(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url, n=6)
        for name, model in (("kept", "tiny"), ("gone", "huge")):
            result = looktwice(
                "run", config, "--out", tmp_path, f"name={name}", f"model.model={model}"
            )
            assert result.exit_code == 0, result.output
        output = looktwice("cache", tmp_path).output
        assert "12 replies" in output and "tiny at 127.0.0.1" in output and "huge at" in output
        assert output.count("6 replies") == 2
        shutil.rmtree(tmp_path / "gone")
        young = looktwice("cache", tmp_path, "--prune", "0").output
        assert "removed 0 replies" in young and "younger than an hour" in young
        make_older(tmp_path / ".cache")
        pruned = looktwice("cache", tmp_path, "--prune", "0").output
        assert "removed 6 replies" in pruned and "6 replies left" in pruned and "huge" not in pruned
        asked = server.stats["requests"]
        again = looktwice("run", config, "--out", tmp_path, "name=kept", "--again=all")
        assert "(6 new" in again.output and server.stats["requests"] == asked


def test_a_run_prunes_a_cache_that_exceeds_its_size(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url, n=3)
        assert looktwice("run", config, "--out", tmp_path, "name=gone").exit_code == 0
        shutil.rmtree(tmp_path / "gone")
        make_older(tmp_path / ".cache")
        config = write_study(tmp_path, server.url, n=4)
        words = ["run", config, "--out", tmp_path, "name=kept"]
        within = looktwice(*words, "--cache-size", "1 MB")
        assert within.exit_code == 0 and "cache:" not in within.output
        (tmp_path / "kept").rename(tmp_path / "other")
        make_older(tmp_path / ".cache")
        beyond = looktwice(
            "run", config, "--out", tmp_path, "name=new", "model.model=huge", "--cache-size", "1 kB"
        )
        # records name all of them
        assert "cache: removed 0 replies" in beyond.output, beyond.output
        shutil.rmtree(tmp_path / "other")
        beyond = looktwice(
            "run", config, "--out", tmp_path, "name=new", "model.model=huge", "--cache-size", "1 kB"
        )
        assert "cache: removed 4 replies" in beyond.output, beyond.output
        assert looktwice(*words, "--cache-size", "much").exit_code == 2


def test_only_as_many_of_the_oldest_as_needed_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path / ".cache")
    for number in range(4):
        store.put(f"{number:064}", "m", Reply("x" * (2 * MAX_INLINE_BYTES)))
        make_older(tmp_path / ".cache", 4000)
    size = sum(row.size for row in store.iterate_rows())
    nowhere = looktwice("cache", tmp_path, "--prune", "0")
    assert nowhere.exit_code == 2 and "contains no runs" in nowhere.output
    assert looktwice("run", write_chance(tmp_path), "--out", tmp_path).exit_code == 0
    output = looktwice("cache", tmp_path, "--prune", str(size * 5 // 8)).output
    assert "removed 2 replies" in output and "2 replies left" in output
    assert sorted(row.key for row in store.iterate_rows()) == [f"{number:064}" for number in (2, 3)]


def test_a_blob_is_removed_with_its_last_reply(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for key, model in (("a", "m"), ("b", "m"), ("c", "n")):
        store.put(key, model, Reply("x" * MAX_INLINE_BYTES + ("" if key != "c" else "c")))
    rows = {row.key: row for row in store.iterate_rows()}
    assert rows["a"].blob == rows["b"].blob != rows["c"].blob
    store.remove([rows["a"], rows["c"]])
    assert rows["a"].blob in store.blobs and not store.blobs.get_path(rows["c"].blob).exists()
    assert store.get("b") is not None and store.get("a") is store.get("c") is None


def test_valid_sizes_and_files_that_are_no_cache(tmp_path: Path) -> None:
    sizes = {"0": 0, "500MB": 500_000_000, "1.5 gb": 1_500_000_000, "2k": 2000}
    assert {text: parse_size(text) for text in sizes} == sizes
    nothing = looktwice("cache", tmp_path)
    assert nothing.exit_code == 2 and "replies.sqlite" in nothing.output
    assert looktwice("run", write_chance(tmp_path), "--out", tmp_path).exit_code == 0
    result = looktwice("cache", tmp_path)
    assert result.exit_code == 0 and "no replies" in result.output and "Pocket" in result.output
    Store(tmp_path / ".cache").put("a", "m", Reply("x"))
    wrong = looktwice("cache", tmp_path, "--prune", "lots")
    assert wrong.exit_code == 2 and "'lots'" in wrong.output
