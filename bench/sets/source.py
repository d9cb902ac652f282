"""Functions of the authors' code, taken from clones of their repositories at one commit and run
without their imports."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Source:
    """A file of a repository at a commit; the clone is the folder `owner+name/repo`."""

    repository: str
    commit: str
    file: str

    def clone(self, clones: Path) -> Path:
        """Return the path of the clone, with or without a work tree."""
        return clones / self.repository.replace("/", "+") / "repo"

    def is_there(self, clones: Path) -> bool:
        """Return whether the clone has the commit."""
        there = self.clone(clones).is_dir()
        return there and not self._git(clones, "cat-file", "-e", f"{self.commit}^{{commit}}")[0]

    def text(self, clones: Path, file: str = "") -> str:
        """Return the text of the file, or of another one of the commit."""
        code, text = self._git(clones, "show", f"{self.commit}:{file or self.file}")
        if code:
            raise FileNotFoundError(f"{self.repository} {self.commit} has no {file or self.file}")
        return text

    def run(self, clones: Path, names: Iterable[str], **known: Any) -> SimpleNamespace:
        """Run the definitions of these names, with numpy, re, json and `known` as their globals."""
        wanted = {*names}
        body = [node for node in ast.parse(self.text(clones)).body if wanted & {*_defined(node)}]
        assert wanted <= {name for node in body for name in _defined(node)}, wanted
        space = {"np": np, "re": re, "json": json, "print": lambda *_: None, **_typing(), **known}
        exec(compile(ast.Module(body, []), self.file, "exec"), space)
        return SimpleNamespace(**{name: space[name] for name in wanted})

    def _git(self, clones: Path, *words: str) -> tuple[int, str]:
        command = ["git", "-C", str(self.clone(clones)), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


def _defined(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _typing() -> Mapping[str, Any]:
    import typing

    return {name: getattr(typing, name) for name in ("Any", "Callable", "Dict", "List", "Optional")}


BABY_VISION = Source("UniPat-AI/BabyVision", "7f92fd4", "babyvision_eval/utils.py")
BABY_SCORES = Source("UniPat-AI/BabyVision", "7f92fd4", "babyvision_eval/compute_score.py")
PERCEPTION = Source("open-compass/VLMEvalKit", "e8e78f0", "vlmeval/dataset/perceptionbench.py")
OMNI_SPATIAL = Source("qizekun/OmniSpatial", "208bac2", "api_eval.py")
VIS_FACTOR = Source("CUHK-ARISE/VisFactor", "75036e2", "vlmeval/dataset/visfactor.py")
ROBO_REFER = Source("Zhoues/RoboRefer", "d97a995", "Evaluation/summarize_acc.py")
POINT_ARENA = Source("pointarena/pointarena", "dcd82f2", "model_evaluator.py")
VIS_RES = Source("EvolvingLMMs-Lab/lmms-eval", "75571cf", "lmms_eval/tasks/visres_bench/utils.py")
QWEN_POINTS = Source(
    "EvolvingLMMs-Lab/lmms-eval", "75571cf", "lmms_eval/tasks/_task_utils/point_format.py"
)
LMMS_POINTS = Source("EvolvingLMMs-Lab/lmms-eval", "75571cf", "lmms_eval/tasks/pointbench/utils.py")
ERQA = Source("open-compass/VLMEvalKit", "e8e78f0", "vlmeval/dataset/erqa.py")
LETTERS = Source(
    "open-compass/VLMEvalKit", "e8e78f0", "vlmeval/dataset/utils/spatial_bench/matching_func.py"
)
BIASED = Source("EvolvingLMMs-Lab/lmms-eval", "75571cf", "lmms_eval/tasks/vlms_are_biased/utils.py")
ZERO_BENCH = Source("EvolvingLMMs-Lab/lmms-eval", "75571cf", "lmms_eval/tasks/zerobench/utils.py")
