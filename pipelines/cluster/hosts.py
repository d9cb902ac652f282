"""Networks that other processes hold: a task sends them what they are to look at, and gets what
they found."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.pipelines.state import collect_remarks, remark

CALLS = 64  # of a host at a time: so many may come together in a batch


class NetworkHost:
    """Holds networks for others; calls of several tasks come together in batches, as those of
    threads do.

    `cache` is the folder in which results are stored.
    """

    def __init__(self, plugins: Sequence[str], cache: str) -> None:
        for plugin in plugins:
            load_plugin(plugin)
        ExitStack().enter_context(use_result_store(Path(cache) / "findings"))

    def call(self, owner: bytes, method: str, given: tuple[Any, ...]) -> tuple[Any, list[str]]:
        """What `method` of the pickled `owner` gives, and what was remarked in it. Raises what it
        raises."""
        with collect_remarks() as remarks:
            return getattr(_unpickled(owner), method)(*given), remarks


@lru_cache(maxsize=256)
def _unpickled(owner: bytes) -> Any:
    return import_module("ray.cloudpickle").loads(owner)


class Hosts:
    """Within a task: asks one of the hosts, which are actors of Ray."""

    def __init__(self, ray: Any, actors: Sequence[Any]) -> None:
        self.ray, self.actors = ray, actors

    def __call__(self, owner: Any, method: str, *given: Any) -> Any:
        """What the method gives there. Raises what it raises there."""
        actor = random.choice(self.actors)
        try:
            result, remarks = self.ray.get(
                actor.call.remote(self.ray.cloudpickle.dumps(owner), method, given)
            )
        except self.ray.exceptions.RayTaskError as exc:
            raise exc.cause from exc
        for sentence in remarks:
            remark(sentence)
        return result
