"""A top-level key of a study that an extension brings: its schema, and what it does to the plan and
to the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from looktwice.pipelines.config.classes import Faults
from looktwice.pipelines.config.entries import StudyConfig
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.extensions import find_extension, list_extensions


class Key:
    """A key of a study; every method does nothing unless a subclass writes it.

    `schema` is the type of its value, as pydantic checks it; `about` says what it is for, and
    `example` shows it as it stands in a file. `plan` is the `Plan` of the study.
    """

    schema: ClassVar[Any] = dict
    about: ClassVar[str] = ""
    example: ClassVar[str] = ""

    def expand(self, value: Any, config: dict[str, Any], faults: Faults) -> dict[str, Any]:
        """The configuration that the key stands for; what cannot be done is noted in `faults`."""
        return config

    def add_arms(self, value: Any, arms: Sequence[Arm], faults: Faults) -> Sequence[Arm]:
        """Arms in addition to those of the contestants, without ids."""
        return ()

    def warn(self, value: Any, plan: Any, first: int) -> Iterator[str]:
        """What `check` says of the first samples of each task."""
        yield from ()

    def companion(self, value: Any, plan: Any) -> Any:
        """What goes along with the run, an `eval.runs.Companion`; or None."""
        return None


def keys_in(config: Mapping[str, Any]) -> dict[str, Key]:
    """The keys of extensions that a configuration has, by name; `null` drops one."""
    keys = dict[str, Key]()
    for name, value in config.items():
        if name in StudyConfig.__annotations__ or value is None:
            continue
        if extension := find_extension("keys", name):
            keys[name] = extension.open()()
    return keys


def all_keys() -> dict[str, Key]:
    """The keys of all extensions, by name."""
    return {name: extension.open()() for name, extension in list_extensions("keys").items()}
