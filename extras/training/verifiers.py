"""A study as an environment of verifiers, which needs the extra `verifiers`: its questions as a
taskset, and its contestant as a harness that runs in verifiers' process.

verifiers finds both by the name of a module, such as a file `my_study.py` with these lines:

    from looktwice.extras.training.verifiers import StudyHarness, StudyTaskset

    __all__ = ["StudyHarness", "StudyTaskset"]

and then

    vf-eval my_study --env.taskset.study study.yaml --env.taskset.contestant full \\
        --env.agent.runtime.type subprocess --model NAME --client.base-url URL

All calls of the contestant's model go through verifiers' endpoint, so the trace contains them,
pictures of tool results included. Agents of any protocol work.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.extras.integrations.command import find_free_folder
from looktwice.extras.training.rollouts import Rollouts
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.models.chat_api import ChatAPI, make_bearer_header
from looktwice.pipelines.models.wire import PicturePlacement
from looktwice.pipelines.runtime.install import format_install

try:
    import verifiers.v1 as vf
except ModuleNotFoundError as exc:
    told = f"this environment needs {exc.name}; type: {format_install('verifiers')}"
    raise ModuleNotFoundError(told, name=exc.name) from exc

__all__ = ["StudyHarness", "StudyTaskset"]

INFO_KEY = "looktwice"
"""The key in a trace's `info` for the verdict of the study's scorer."""
_OPENING_LOCK = threading.Lock()
_THREAD_POOL = ThreadPoolExecutor(256, thread_name_prefix="looktwice-rollout")
"""The threads for concurrent rollouts; most of the time a thread waits for its model."""


@cache
def _open_rollouts(study: str, contestant: str, out: str) -> Rollouts:
    rollouts = Rollouts.load(study, contestant, find_free_folder(Path(out)))
    rollouts.__enter__()
    atexit.register(rollouts.__exit__, None, None, None)
    return rollouts


def open_rollouts(study: str, contestant: str, out: str) -> Rollouts:
    """Open the rollouts of a contestant once for this process; each further process uses the next
    free folder, such as `out-2`. Raises ConfigError, RunError."""
    with _OPENING_LOCK:
        return _open_rollouts(study, contestant, out)


class StudyTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """The settings of the taskset: the study, its contestant, and the folder for the rollouts."""

    study: str = ""
    contestant: str = ""
    out: str = "runs/verifiers"


class StudyData(vf.TaskData):  # type: ignore[misc]
    """The data of a question: the id of its sample, the study, the contestant and the folder, but
    no pictures."""

    study: str
    contestant: str
    out: str


class StudyTask(vf.Task[StudyData]):  # type: ignore[misc]
    """A task with one question, whose reward is computed by the study's reader and scorer."""

    @vf.reward(weight=1.0)
    async def study_reward(self, trace: vf.Trace) -> float:
        """Return the score of the answer, which is 0 if the answer is wrong, unreadable or
        missing."""
        return float(trace.info.get(INFO_KEY, {}).get("value", 0.0))


class StudyTaskset(vf.Taskset[StudyTask, StudyTasksetConfig]):  # type: ignore[misc]
    """A taskset of all questions of the contestant's task."""

    def load(self) -> Iterator[StudyTask]:
        """Yield one task for each question. Raises ConfigError, RunError, TaskError."""
        own = self.config
        if not (own.study and own.contestant):
            raise ValueError(
                "the taskset needs a study and a contestant; add --env.taskset.study FILE"
                " --env.taskset.contestant NAME"
            )
        place = {"study": own.study, "contestant": own.contestant, "out": own.out}
        for name, item in open_rollouts(**place).items.items():
            words = item.sample.question
            yield StudyTask(StudyData(id=name, name=name, prompt=words, **place), own.task)


@dataclass(frozen=True)
class _TracedModel(ChatAPI):
    """A model at verifiers' endpoint; the key for its requests is the secret of the rollout."""

    secret: str = field(default="", repr=False, metadata=NOT_IDENTITY)

    def make_auth_headers(self, key: str | None) -> dict[str, str]:
        """Return the header that carries the secret."""
        return make_bearer_header(self.secret)


class StudyHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """A harness that runs the contestant's stages on a question; their model is the one at
    verifiers' endpoint."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> vf.ProgramResult:
        """Run the stages in a thread, and store the verdict in the trace. If a stage fails, return
        its error as the program's error."""

        def run() -> ScoredRecord:
            rollouts = open_rollouts(data.study, data.contestant, data.out)
            protocol = getattr(rollouts.agent, "protocol", None)
            pictures: PicturePlacement = getattr(protocol, "pictures", "user")
            model = _TracedModel(ctx.model, endpoint, pictures=pictures, secret=secret)
            return rollouts.run(rollouts.items[data.id], model)

        scored = await asyncio.get_running_loop().run_in_executor(_THREAD_POOL, run)
        trace.info[INFO_KEY] = {
            "value": float(scored.score.value),
            "verdict": scored.verdict.value,
            "answer": scored.answer,
        }
        failed = scored.verdict == "failed"
        why = (scored.detail or scored.reason or "failed").splitlines()[0] if failed else ""
        return vf.ProgramResult(int(failed), "", why)
