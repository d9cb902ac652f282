"""Shares out among many tasks what an endpoint may be asked at a time, by what each of them
wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from looktwice.pipelines.models.limits import LimitKey, Load, limiters

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
