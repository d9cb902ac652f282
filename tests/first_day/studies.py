"""A study in a user's folder, run from the command line, and signals sent during the run."""

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
    """Write a study in `folder` that asks the server at `url` `n` questions."""
    folder.mkdir(exist_ok=True)
    path = folder / "study.yaml"
    path.write_text(STUDY.format(url=url, n=n) + more)
    return path


def looktwice(*words: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


@contextmanager
def do_when(it_is_so: Callable[[], bool], then: Callable[[], None]) -> Iterator[None]:
    """Call `then` in another thread once the condition holds. Raises what it raised."""
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
    """Return a function that sends this process a signal, as a terminal or a scheduler does."""
    return lambda: os.kill(os.getpid(), number)


def get_output(*words: object, code: int = 0) -> str:
    """Run a command, check its exit code, and return its output on one line."""
    result = looktwice(*words)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def run_study(folder: Path, url: str, *words: object, code: int = 0, n: int = 4) -> str:
    """Run a study of `n` questions in `folder` and return the output of `run` on one line."""
    return get_output("run", write_study(folder, url, n), "--out", folder, *words, code=code)


def records(folder: Path) -> list[Record]:
    """Return the records of the study in `folder`."""
    return list(RunFolder(folder / "study").records().values())
