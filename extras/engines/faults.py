"""One sentence for each way in which an engine fails: a missing package, no GPU, no memory, a model
without vision, a request that it refuses, and an engine that ended."""

from __future__ import annotations

import re
from importlib.util import find_spec

from looktwice.extras.networks.opening import get_first_line, is_out_of_memory
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.runtime.install import format_install

MEMORY_FAULT_PATTERN = re.compile(
    r"free memory on device|no available memory|not enough memory|kv.?cache|out of memory"
    r"|initialization failed|scheduler died|during initialization",
    re.IGNORECASE,
)
"""Messages of engines that could not reserve their memory; some only say that a process ended."""
REQUEST_ADVICE = (
    (r"context length|max_model_len|longer than|max_total_tokens|too long", "set `max_pixels` or"),
    (r"decoded media|_DECODE_BYTES", "show fewer pictures, or set `max_pixels` or"),
)


def require_package(name: str) -> None:
    """Raise ModelError if the package of an engine is missing; imports nothing."""
    if find_spec(name) is None:
        raise ModelError(f"{name} is not installed; type: {format_install(name)}")


def make_device_error(engine: str, found: str) -> ModelError:
    """Return the error for a machine on which an engine finds no GPU."""
    return ModelError(
        f"{engine} finds no GPU here ({found}); use a machine with one, or {{use:"
        " pipelines.models.LocalVLM}"
    )


def make_opening_error(engine: str, model: str, exc: BaseException) -> ModelError:
    """Return the error for an engine that could not start with a model."""
    fault = f"{engine} could not open {model!r}: {get_first_line(exc)}"
    if is_out_of_memory(exc) or MEMORY_FAULT_PATTERN.search(str(exc)):
        advice = (
            "; if the GPU has too little free memory (see the log above), set `memory` to another"
            " share of it, a shorter context in `engine`, or more `gpus`"
        )
        return ModelError(fault + advice)
    return ModelError(f"{fault}; check `model`, `revision` and the settings in `engine`")


def make_vision_error(engine: str, model: str) -> ModelError:
    """Return the error for pictures that are shown to a model without vision."""
    return ModelError(
        f"{model!r} accepts no pictures ({engine} opened it as a text model); set `model` to one"
        " with vision, or show no pictures"
    )


def make_request_error(engine: str, exc: BaseException) -> ModelError:
    """Return the error for one request that an engine refused or could not finish."""
    message = get_first_line(exc)
    if is_out_of_memory(exc):
        advice = "set `memory` or `max_pixels` lower"
    else:
        found = (text for words, text in REQUEST_ADVICE if re.search(words, message, re.I))
        more = next(found, "")
        advice = (
            f"{more} `max_tokens` lower".strip()
            if more
            else "change the setting that the engine names"
        )
    return ModelError(f"{engine} refused the request: {message}; {advice}")


def make_death_error(engine: str, exc: BaseException | None = None) -> ModelError:
    """Return the error for requests to an engine that has ended."""
    reason = f" ({get_first_line(exc)})" if exc is not None else ""
    return ModelError(
        f"{engine} has ended{reason}; its log says why: if memory ran out, set `memory` or"
        " `max_pixels` lower, then run again"
    )
