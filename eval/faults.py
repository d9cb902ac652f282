"""Which exceptions are the input's fault: their message is all that a user needs."""

from __future__ import annotations

from looktwice.eval.records import RunError
from looktwice.eval.task import TaskError
from looktwice.pipelines.build import ConfigError
from looktwice.pipelines.cache import CacheError
from looktwice.pipelines.picture import PictureError

__all__ = ["INPUT_FAULTS"]

INPUT_FAULTS = (ConfigError, RunError, TaskError, CacheError, PictureError, OSError)
