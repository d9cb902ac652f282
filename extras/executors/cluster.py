"""What tasks on several machines share: the limits of endpoints, shared out by what each of them
wants, and networks that other processes hold, to which a task sends the images.

Not here: the tasks of a run and who writes what they find, which is `eval.runs`."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.models.limits import LimitKey, Load, limiters
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.pipelines.state import collect_remarks, remark

__all__: list[str] = []

SILENT = 10.0  # seconds after which a task that was not heard of is lost, and what it had is free


@dataclass(eq=False)
class Desk:
    """Where the tasks of a run, so many at a time, ask once a second what they may do, and whether
    to stop.

    All together have never more of an endpoint's slots than it has: one that is to give some back
    keeps what it had when it asked, in which it may begin more until it is answered, and what it
    uses until it says that it uses fewer. `given` is what each may use, and the most that it may be
    using.
    """

    tasks: int
    rung: bool = False
    loads: dict[str, tuple[float, Mapping[LimitKey, Load]]] = field(default_factory=dict)
    given: dict[tuple[str, LimitKey], tuple[int, int]] = field(default_factory=dict)

    def ring(self) -> None:
        """From now on the run is being stopped."""
        self.rung = True

    def ask(self, task: str, loads: Mapping[LimitKey, Load]) -> tuple[bool, dict[LimitKey, int]]:
        """Whether to stop, and how many slots of each endpoint this task may use."""
        now = time.monotonic()
        self.loads[task] = now, loads
        for lost in [name for name, (heard, _) in self.loads.items() if now - heard > SILENT]:
            self.leave(lost)
        return self.rung, {key: self._give(task, key, load) for key, load in loads.items()}

    def leave(self, task: str) -> None:
        """A task has ended, or is lost."""
        self.loads.pop(task, None)
        self.given = {key: slots for key, slots in self.given.items() if key[0] != task}

    def _give(self, task: str, key: LimitKey, load: Load) -> int:
        wanted = {
            name: loads[key].wanted for name, (_, loads) in self.loads.items() if key in loads
        }
        others = sum(
            most for (name, where), (_, most) in self.given.items() if where == key and name != task
        )
        fair = share_out(wanted, key.in_flight)
        spare = (key.in_flight - sum(fair.values())) // max(self.tasks, len(wanted))
        slots = max(0, min(fair[task] + spare, key.in_flight - others))
        before, _ = self.given.get((task, key), (0, 0))
        self.given[task, key] = slots, max(slots, before, load.under_way)
        return slots


def share_out(wanted: Mapping[str, int], most: int) -> dict[str, int]:
    """So many for each that all get what they want, or those who want more than their part get as
    much as any other."""
    shares, left = dict[str, int](), most
    for number, name in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        shares[name] = min(wanted[name], left // (len(wanted) - number))
        left -= shares[name]
    return shares


Ask = Callable[[Mapping[LimitKey, Load]], tuple[bool, dict[LimitKey, int]]]


def obey(ask: Ask, drain: threading.Event) -> None:
    """Within a task: use what the desk gives, and set `drain` where it says to stop."""
    here = limiters()
    rung, slots = ask({key: limiter.load for key, limiter in here.items()})
    for key, number in slots.items():
        here[key].allot(number)
    if rung:
        drain.set()


CALLS = 64  # of a host at a time: so many may come together in a batch


class NetworkHost:
    """Holds networks for others; calls of several tasks come together in batches, as those of
    threads do.

    `cache` is the folder in which results are stored.
    """

    def __init__(self, plugins: Sequence[str], cache: str) -> None:
        for plugin in plugins:
            load_plugin(plugin)
        self.store = ExitStack()  # unkept, it would leave the store at once
        self.store.enter_context(use_result_store(Path(cache) / "findings"))

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
