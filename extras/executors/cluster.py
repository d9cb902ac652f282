"""Resources that tasks on several machines share: endpoint limits, divided by the demand of each
task, and networks held by other processes, to which tasks send images.

Not here: the tasks of a run and the process that writes their results (`ray_executor`).
"""

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
from looktwice.pipelines.models.limits import LimitKey, Load, list_limiters
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.pipelines.state import collect_remarks, remark

__all__: list[str] = []

MAX_SILENCE_SECONDS = (
    10.0  # seconds without a message after which a task counts as lost, and frees its slots
)


@dataclass(eq=False)
class LimitCoordinator:
    """The coordinator of a run's tasks, of which at most `max_tasks` run at a time. Once a second
    each task asks how many requests it may have in flight, and whether to stop.

    Together, the tasks never use more slots of an endpoint than the endpoint has. A task that has
    to return slots still counts with those it had when it asked, since it may start requests until
    the answer arrives, and with those in use until it reports fewer. `granted_slots` holds the
    number of slots that each task may use, and the largest number that it may still be using.
    """

    max_tasks: int
    is_stopping: bool = False
    loads: dict[str, tuple[float, Mapping[LimitKey, Load]]] = field(default_factory=dict)
    granted_slots: dict[tuple[str, LimitKey], tuple[int, int]] = field(default_factory=dict)

    def request_stop(self) -> None:
        """Make every task stop the next time it reports."""
        self.is_stopping = True

    def ask(self, task: str, loads: Mapping[LimitKey, Load]) -> tuple[bool, dict[LimitKey, int]]:
        """Return whether to stop, and how many slots of each endpoint this task may use."""
        now = time.monotonic()
        self.loads[task] = now, loads
        for lost in [
            name for name, (heard, _) in self.loads.items() if now - heard > MAX_SILENCE_SECONDS
        ]:
            self.leave(lost)
        return self.is_stopping, {
            key: self._assign_slots(task, key, load) for key, load in loads.items()
        }

    def leave(self, task: str) -> None:
        """Free the slots of a task that has ended or is lost."""
        self.loads.pop(task, None)
        self.granted_slots = {
            key: slots for key, slots in self.granted_slots.items() if key[0] != task
        }

    def _assign_slots(self, task: str, key: LimitKey, load: Load) -> int:
        wanted = {
            name: loads[key].wanted_slots for name, (_, loads) in self.loads.items() if key in loads
        }
        others = sum(
            most
            for (name, where), (_, most) in self.granted_slots.items()
            if where == key and name != task
        )
        fair = divide_slots(wanted, key.in_flight)
        spare = (key.in_flight - sum(fair.values())) // max(self.max_tasks, len(wanted))
        slots = max(0, min(fair[task] + spare, key.in_flight - others))
        before, _ = self.granted_slots.get((task, key), (0, 0))
        self.granted_slots[task, key] = slots, max(slots, before, load.in_flight)
        return slots


def divide_slots(wanted: Mapping[str, int], total: int) -> dict[str, int]:
    """Divide `total` slots so that every task gets what it asks for or, if there are too few, at
    least an equal share."""
    shares, left = dict[str, int](), total
    for number, name in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        shares[name] = min(wanted[name], left // (len(wanted) - number))
        left -= shares[name]
    return shares


AskLimits = Callable[[Mapping[LimitKey, Load]], tuple[bool, dict[LimitKey, int]]]


def apply_limits(ask: AskLimits, drain: threading.Event) -> None:
    """Ask the coordinator from within a task: apply the limits it returns, and set `drain` if it
    says to stop."""
    here = list_limiters()
    rung, slots = ask({key: limiter.load for key, limiter in here.items()})
    for key, number in slots.items():
        here[key].allot(number)
    if rung:
        drain.set()


MAX_HOST_CALLS = 64  # simultaneous calls of a host, which can be joined into a batch


class NetworkHost:
    """Holds networks for other processes, and joins calls of several tasks into batches, as calls
    of several threads are joined.

    `cache` is the folder in which results are stored.
    """

    def __init__(self, plugins: Sequence[str], cache: str) -> None:
        for plugin in plugins:
            load_plugin(plugin)
        self.store = ExitStack()  # without a reference, it would close the store at once
        self.store.enter_context(use_result_store(Path(cache) / "findings"))

    def call(self, owner: bytes, method: str, given: tuple[Any, ...]) -> tuple[Any, list[str]]:
        """Call `method` of the pickled `owner`; return its result and the remarks made during the
        call. Raises the method's errors."""
        with collect_remarks() as remarks:
            return getattr(_unpickle(owner), method)(*given), remarks


@lru_cache(maxsize=256)
def _unpickle(owner: bytes) -> Any:
    return import_module("ray.cloudpickle").loads(owner)


class HostPool:
    """A task's client of the network hosts, which are Ray actors."""

    def __init__(self, ray: Any, actors: Sequence[Any]) -> None:
        self.ray, self.actors = ray, actors

    def __call__(self, owner: Any, method: str, *given: Any) -> Any:
        """Call a method on a random host. Raises the method's errors."""
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
