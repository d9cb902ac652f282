"""The store of replies: hits, one flight, what survives a kill, several processes, and folders it refuses."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from looktwice.pipelines.model import CallOptions, Message, Messages, ModelError, Reply, ToolCall, Usage
from looktwice.pipelines.models import Cached, CacheError, ChatAPI, Scripted
from looktwice.pipelines.models.cache import INLINE, Store, refuse_network
from tests.chat_server import chat_server

HELLO = (Message("user", ("hello",)),)


class Slow:
    """Answers after a moment, the first `failing` times with an error."""

    identity = "slow"

    def __init__(self, failing: int = 0) -> None:
        self.failing, self.asked, self.lock = failing, 0, threading.Lock()

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        with self.lock:
            self.asked += 1
            number = self.asked
        time.sleep(0.05)
        if number <= self.failing:
            raise ModelError(f"failure {number}")
        return Reply(f"reply {number}")


def together(call: Callable[[], Reply], callers: int) -> list[Reply | ModelError]:
    start = threading.Barrier(callers)

    def one(_: int) -> Reply | ModelError:
        start.wait(10)
        try:
            return call()
        except ModelError as exc:
            return exc

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(one, range(callers)))


def test_the_second_time_is_cached_and_every_part_of_the_request_counts(tmp_path: Path) -> None:
    inner = Scripted(lambda messages: Reply(f"{messages[0].text}!", usage=Usage(1, 2), seconds=0.5))
    model = Cached(inner, Store(tmp_path))
    first, second = model(HELLO), model(HELLO)
    assert (first.cached, second.cached) == (False, True)
    assert (second.text, second.usage, second.seconds) == ("hello!", Usage(1, 2), 0.5)
    others = [
        (HELLO, 1, CallOptions()),
        (HELLO, 0, CallOptions(seed=1)),
        ((Message("system", ("hello",)),), 0, CallOptions()),
    ]
    assert not any(model(*each).cached for each in others) and len(inner.asked) == 4
    assert len(model.store) == 4 and model.identity == inner.identity


FULL = Reply(
    "a\ud83d\ude00", "tool", "why", (ToolCall("1", "t", "{}"),), "no", Usage(1, 2, 3, 4), 1.5, ({"b": -1.0, "a": -0.1},)
)


@pytest.mark.parametrize("reply", [FULL, Reply(""), Reply("x" * INLINE), Reply("é" * INLINE, served_by={"model": "m"})])
def test_replies_come_back_whole_from_another_store(tmp_path: Path, reply: Reply) -> None:
    clean = Reply.from_dict({**reply.to_dict(), "text": reply.text.encode("utf-16", "surrogatepass").decode("utf-16")})
    store = Store(tmp_path)
    store.put("k", "m", clean)
    store.close()
    found = Store(tmp_path).get("k")
    assert found == clean and [list(each) for each in found.logprobs] == [list(each) for each in clean.logprobs]
    assert (tmp_path / "blobs").exists() == (len(reply.text) >= INLINE)


def test_eight_callers_one_request(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.2") as server:
        model = Cached(ChatAPI("m", server.url), Store(tmp_path))
        replies = together(lambda: model(HELLO), 8)
        assert server.stats["requests"] == 1
    assert sorted(reply.cached for reply in replies if isinstance(reply, Reply)) == [False] + [True] * 7
    assert len({reply.text for reply in replies if isinstance(reply, Reply)}) == 1


def test_a_failed_leader_hands_over_and_failures_are_not_stored(tmp_path: Path) -> None:
    inner = Slow(failing=2)
    model = Cached(inner, Store(tmp_path))
    replies = together(lambda: model(HELLO), 5)
    assert inner.asked == 3
    assert sum(isinstance(reply, ModelError) for reply in replies) == 2
    assert {reply.text for reply in replies if isinstance(reply, Reply)} == {"reply 3"}
    always = Cached(Slow(failing=99), model.store)
    for number in (1, 2):
        with pytest.raises(ModelError, match=f"failure {number}"):
            always((Message("user", ("other",)),))
    assert len(model.store) == 1 and not model.store._turns


def test_only_what_is_cached(tmp_path: Path) -> None:
    store, inner = Store(tmp_path), Scripted("(A)")
    Cached(inner, store)(HELLO)
    only = Cached(inner, store, only=True)
    assert only(HELLO).cached
    with pytest.raises(ModelError, match="--only-cached"):
        only(HELLO, draw=1)
    assert len(inner.asked) == 1


def test_the_first_of_two_writers_counts_and_a_lost_blob_is_asked_again(tmp_path: Path) -> None:
    one, other = Store(tmp_path), Store(tmp_path)
    assert one.put("k", "m", Reply("first")).text == other.put("k", "m", Reply("second")).text == "first"
    big = Reply("y" * INLINE)
    one.put("big", "m", big)
    for torn in (None, b"{"):
        path = next((tmp_path / "blobs").glob("*/*"))
        path.unlink()
        if torn is not None:
            path.write_bytes(torn)
        assert other.get("big") is None
        assert other.put("big", "m", big) == big == other.get("big")


WRITER = """
import sys
from pathlib import Path
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.model import Reply
store, name, count = Store(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
for number in range(count):
    store.put(f"{name} {number}", "m", Reply("x" * (number % 3) * 9000))
    sys.stdout.write(f"{name} {number}\\n")
    sys.stdout.flush()
"""


def writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", WRITER, str(folder), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_what_put_gave_back_survives_a_kill(tmp_path: Path) -> None:
    with writer(tmp_path, "w", 1_000_000) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(60)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read().splitlines(keepends=True)
    store = Store(tmp_path)
    whole = [line.strip() for line in said if line.endswith("\n")]
    assert len(whole) >= 60 and all(store.get(key) is not None for key in whole)
    assert len(store) <= len(whole) + 1


def test_several_processes_share_a_store(tmp_path: Path) -> None:
    running = [writer(tmp_path, f"w{number}", 40) for number in range(3)]
    for process in running:
        with process:
            process.communicate(timeout=60)
        assert process.returncode == 0
    store = Store(tmp_path)
    assert len(store) == 120 and all(store.get(f"w{n} {i}") for n in range(3) for i in range(40))


MOUNTS = (
    "/dev/sda1 / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n"
    "srv /scratch\\040big lustre rw 0 0\n/dev/sdb /home/local xfs rw 0 0\nu@h: /mnt/ssh fuse.sshfs rw 0 0\n"
)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/tmp/cache", ""),
        ("/home/me/cache", "nfs4 at /home"),
        ("/home/local/cache", ""),
        ("/homely/cache", ""),
        ("/scratch big/cache", "lustre"),
        ("/mnt/ssh/x", "sshfs"),
    ],
)
def test_network_folders_are_refused(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    if not kind:
        return refuse_network(Path(folder), "cache_dir", mounts)
    with pytest.raises(CacheError, match=f"{kind}.*set cache_dir"):
        refuse_network(Path(folder), "cache_dir", mounts)


def test_a_damaged_or_newer_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "replies.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(CacheError, match=r"replies\.sqlite cannot be used .*move the file away"):
        Store(tmp_path).get("k")
    newer = tmp_path / "newer"
    Store(newer).put("k", "m", Reply("a"))
    connection = sqlite3.connect(newer / "replies.sqlite")
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(CacheError, match="version 9"):
        Store(newer).get("k")
