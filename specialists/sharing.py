"""Shares the results of specialists between the stages of a run, so that each image is processed
once."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from looktwice.pipelines.config.spec import (
    find_settings,
    is_dataclass_object,
    list_inner_settings,
    settings,
    spec,
)
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.runtime.stores import ResultStore, get_current_store, make_result_key
from looktwice.pipelines.runtime.weights import hash_weights
from looktwice.pipelines.state import collect_remarks, remark
from looktwice.specialists.results import Boxes, DepthMap, Faces, FeatureGrid, Masks, Matches

__all__ = ["look_once"]

MIN_STORED_SECONDS = 0.02  # seconds; computing cheaper results again is faster than reading them
SECONDS_PER_BYTE = 5e-8  # seconds to compress and write a byte
RESULT_LIBRARIES = ("looktwice", "numpy", "opencv-python-headless", "scikit-image", "dlib")
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True, eq=False)
class StoredValue:
    """A wrapper in which a result that is an array or a number is stored."""

    values: Any


INPUT_TYPES = (np.ndarray, str, list, tuple, type(None), Boxes)
STORED_CLASSES = (Boxes, DepthMap, Faces, FeatureGrid, Masks, Matches, StoredValue)


def look_once(specialist: Callable[..., Result], *inputs: Any) -> Result:
    """Run a specialist on pixels and words, or return its result if it ran on them before.

    Stages call specialists through this function. Within a run, the first caller runs the
    specialist, and every other call with the same pixels, words and settings gets the same result.
    Results that take more than 20 ms to compute, and longer than they take to write, are stored in
    the run's cache folder for later commands. The key covers the pixels, the settings, the
    specialist's code and the files that it reads: the paths among its settings, or those that its
    method `files()` returns. If helpers of a class change, raise its `version`. Networks store
    their results themselves, and specialists built on other specialists are not stored. Nothing is
    shared outside of `use_result_store`, or if the result is neither an array, a number nor a class
    of `results`. Raises whatever the specialist raises.
    """
    store = get_current_store()
    if store is None or not all(isinstance(given, INPUT_TYPES) for given in inputs):
        return specialist(*inputs)
    try:
        own = _build_storage_name(specialist)
        name = own or write_canonical(spec(specialist))
    except TypeError:  # a function, or one with a setting that no configuration can hold
        return specialist(*inputs)
    given = list(inputs)
    while given and given[-1] is None:  # omitted arguments
        given.pop()
    key = make_result_key(name, *given)
    return store.memory.get_or_compute(
        key, lambda: _run_or_load(specialist, inputs, store if own else None, key)
    )


def _run_or_load(
    specialist: Callable[..., Result], inputs: tuple[Any, ...], store: ResultStore | None, key: str
) -> tuple[Result, int | None]:
    """Load or compute a result, and return it with its size in bytes; the size is None for a
    mutable result, which is not shared."""
    whole: Any = None if store is None else store.get(key, *STORED_CLASSES)
    if whole is None:
        start = time.perf_counter()
        with collect_remarks() as remarks:
            result: Any = specialist(*inputs)
        seconds = time.perf_counter() - start
        for sentence in remarks:
            remark(sentence)
        whole = StoredValue(result) if isinstance(result, np.ndarray | float | int) else result
        if not isinstance(whole, STORED_CLASSES):
            return result, None
        if (
            store is not None
            and not remarks
            and seconds > MIN_STORED_SECONDS + _count_bytes(whole) * SECONDS_PER_BYTE
        ):
            store.put(key, whole)
    shared = whole.values if isinstance(whole, StoredValue) else whole
    if isinstance(shared, np.ndarray):
        shared = shared.view()  # it may be the input picture itself
        shared.flags.writeable = False
    return shared, _count_bytes(whole)


def _count_bytes(result: Any) -> int:
    return sum(int(np.asarray(value).nbytes) for value in vars(result).values())


def _build_storage_name(specialist: Any) -> str:
    """Return the part of a storage key that identifies the specialist; empty for specialists that
    store results themselves or are built on other specialists."""
    parts = list(_list_dataclasses(specialist))
    if hasattr(specialist, "weights_id") or any(callable(part) for part in parts[1:]):
        return ""
    if not parts:
        raise TypeError(f"{specialist!r} is not a dataclass")
    files = [
        Path(getattr(sys.modules.get(type(part).__module__), "__file__", None) or "")
        for part in parts
    ]
    if not all(file.is_file() for file in files):  # a class defined in a notebook
        return ""
    paths = filter(Path.exists, find_settings(specialist, Path))
    files += specialist.files() if hasattr(specialist, "files") else paths
    return write_canonical(
        [settings(specialist), [hash_weights(file) for file in files], _list_versions()]
    )


def _list_dataclasses(value: Any) -> Iterator[Any]:
    """Yield a dataclass and all dataclasses among its settings."""
    if is_dataclass_object(value):
        yield value
    for setting in list_inner_settings(value):
        yield from _list_dataclasses(setting)


@cache
def _list_versions() -> list[str]:
    """Return the versions of the libraries that affect specialists without networks."""
    return [
        distribution.version
        for name in RESULT_LIBRARIES
        for distribution in distributions(name=name)
    ]
