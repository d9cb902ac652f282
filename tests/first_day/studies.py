"""A study of a user's folder, run by the command line, and signals that come in the middle."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner, Result

from looktwice.eval.cli import app
from looktwice.eval.records import Record, RunFolder

STUDY = """
tasks: {{jigsaw: {{use: eval.tasks.Photos, kind: jigsaw, n: {n}, quality: 90}}}}
model: {{use: pipelines.models.ChatAPI, model: tiny, temperature: 0, url: "{url}"}}
stages:
  choose: {{use: prompting.wording.MultipleChoice}}
  ask: {{use: prompting.turns.Ask}}
"""


def write_study(folder: Path, url: str, n: int = 4, more: str = "") -> Path:
    """The file of a study in `folder` that asks `n` questions of the server at `url`."""
    folder.mkdir(exist_ok=True)
    path = folder / "study.yaml"
    path.write_text(STUDY.format(url=url, n=n) + more)
    return path


def looktwice(*words: object) -> Result:
    """What a user types, in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


@contextmanager
def do_when(it_is_so: Callable[[], bool], then: Callable[[], None]) -> Iterator[None]:
    """Do something in another thread as soon as it is so; raises what that raised."""
    failures: list[BaseException] = []

    def watch() -> None:
        try:
            until = time.monotonic() + 300
            while not it_is_so():
                assert time.monotonic() < until, "it did not happen"
                time.sleep(0.02)
            then()
        except BaseException as exc:
            failures.append(exc)

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join()
    if failures:
        raise failures[0]


def send(number: int) -> Callable[[], None]:
    """Send this process a signal, as a terminal or a scheduler does."""
    return lambda: os.kill(os.getpid(), number)


def get_output(*words: object, code: int = 0) -> str:
    """What a command prints that ends with this code, in one line."""
    result = looktwice(*words)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def run_study(folder: Path, url: str, *words: object, code: int = 0, n: int = 4) -> str:
    """What `run` prints, in one line, of a study of `n` questions that is kept in `folder`."""
    return get_output("run", write_study(folder, url, n), "--out", folder, *words, code=code)


def records(folder: Path) -> list[Record]:
    """The records of the study in `folder`."""
    return list(RunFolder(folder / "study").records().values())
