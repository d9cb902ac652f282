"""The reference matches today's signatures and docstrings and omits no class and no key."""

import dataclasses
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml

from looktwice.pipelines.config import build, keys as entries
from looktwice.pipelines.config.classes import (
    find_dataclass,
    get_kind,
    list_union_members,
    load_plugin,
)
from looktwice.pipelines.config.load import find_shape_faults
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.extensions import list_own_classes
from looktwice.pipelines.state import State
from tests.optional import HAS_EXTRAS, needs_extras
from tests.paths import DOCS, ROOT

python_page = import_module(load_plugin(str(DOCS / "python_page.py")))  # the next one imports it
reference = import_module(load_plugin(str(DOCS / "reference.py")))
PAGES: dict[str, str] = reference.pages()
CLASSES: dict[str, type] = reference.CLASSES
NOT_NAMED = {  # they build or wrap parts of a run, and no configuration key accepts them
    "eval.homes.Requests",
    "eval.runs.Forward",
    "eval.runs.Study",
    "pipelines.models.Cached",
    "pipelines.models.Limited",
    "pipelines.models.Metered",
    "pipelines.models.Retried",
    "pipelines.pipeline.NoModel",
    "pipelines.pipeline.Pipeline",
}


@needs_extras
def test_the_pages_are_current() -> None:
    written = {"reference.md", *(f"reference/{p.name}" for p in (DOCS / "reference").iterdir())}
    assert written == set(PAGES), "run `make format`, and remove pages that it no longer writes"
    stale = [name for name in PAGES if (DOCS / name).read_text(encoding="utf-8") != PAGES[name]]
    assert not stale, "run `make format`"


@pytest.mark.slow
def test_they_are_the_same_on_every_machine_and_need_no_torch() -> None:
    code = (
        "import hashlib, sys, reference; text = ''.join(reference.pages().values())\n"
        "print(hashlib.sha256(text.encode()).hexdigest(), 'torch' in sys.modules)"
    )
    paths = f"{ROOT / 'typings'}{os.pathsep}{DOCS}"
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": paths}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    digest = hashlib.sha256("".join(PAGES.values()).encode()).hexdigest()
    assert done.stdout.split() == [digest, "False"]


def is_usable(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) and get_kind(cls) is not None


@needs_extras
def test_every_class_that_a_configuration_can_name_is_listed() -> None:
    public = [*(ROOT / "tests" / "public_paths.txt").read_text().split(), *list_own_classes()]
    things = {path: python_page.named(path) for path in public}
    usable = {path for path, cls in things.items() if isinstance(cls, type) and is_usable(cls)}
    assert usable - NOT_NAMED - CLASSES.keys() == set()
    text, listed = "".join(PAGES.values()), PAGES["reference.md"]
    assert [path for path in CLASSES if text.count(f"### {path}\n") != 1] == []
    assert [cls for cls in CLASSES.values() if f"[{cls.__name__}](" not in listed] == []


def test_the_python_page_lists_public_objects_with_all_members() -> None:
    public = (ROOT / "tests" / "public_paths.txt").read_text().split()
    paths = [path for part in python_page.PYTHON.values() for path in part]
    of_files = {path for path in paths if path.count(".") > 2}  # `folder.room.file.name`
    assert set(paths) - of_files <= set(public) and set(paths) >= reference.VALUES
    page = PAGES["reference/python.md"]
    state = page.partition("### pipelines.state.State\n")[2].partition("###")[0]
    shown = set(re.findall(r"^- `(\w+)", state, re.MULTILINE))
    assert shown == {f.name for f in dataclasses.fields(State)} | {
        n for n in dir(State) if not n.startswith("_")
    }
    assert "- `n: int = 0`: units behind the value, see `unit`\n" in page


DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *DOCS.glob("*.md"),
    *(DOCS / "howto").glob("*.md"),
    *(DOCS / "reference").glob("*.md"),
]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@cache
def anchors(page: Path) -> set[str]:
    """Return the link targets of a page, named as GitHub names them."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_has_a_target() -> None:
    faults, found = [], 0
    for page in DOCUMENTS:
        for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
            target, found = (page.parent / path) if path else page, found + 1
            if not target.exists() or (anchor and anchor not in anchors(target)):
                faults.append(f"{page.name}: {path}#{anchor}")
    assert faults == [] and found > 500


def build_default(cls: type) -> Any:
    """Build an object with its default settings, or return None if one is required."""
    try:
        return cls()
    except (TypeError, ValueError):
        return None


def test_a_block_of_settings_builds_the_default_object(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = []
    monkeypatch.setenv("LOOKTWICE_ALLOW", "python-code")
    assert len(CLASSES) > (200 if HAS_EXTRAS else 140)
    for path, cls in CLASSES.items():
        node = yaml.safe_load(f"{reference.format_settings(path, cls)}\n")
        names = ["use", *(f.name for f in dataclasses.fields(cls) if f.init)]
        plain = build_default(cls)
        if list(node) != names or (plain is not None and spec(build(node)) != spec(plain)):
            faults.append(path)
    assert faults == []


def read_docstrings(cls: type) -> str:
    """Return the docstrings of the class and its bases, as shown on its page."""
    tool = "`description`" if hasattr(cls, "arguments") else ""
    return " ".join(
        [cls.__doc__ or "", *(base.__doc__ or "" for base in reference.find_bases(cls)), tool]
    )


def is_explained_by_type(hint: Any) -> bool:
    """Return whether the type of a setting is a class with its own docstring."""
    return find_dataclass(hint) is not None or any(
        getattr(each, "_is_protocol", False) for each in list_union_members(hint)
    )


def list_unexplained(cls: type) -> Iterator[str]:
    """Yield the settings that are explained neither by a docstring nor by their type."""
    words, hints = read_docstrings(cls), get_type_hints(cls)
    for name in (f.name for f in dataclasses.fields(cls) if f.init):
        is_said = f"`{name}`" in words or f"`{name}: " in words
        if not is_said and not is_explained_by_type(hints[name]):
            yield name


def test_every_setting_is_explained() -> None:
    missing = {
        path: names for path, cls in CLASSES.items() if (names := list(list_unexplained(cls)))
    }
    assert missing == {}, "explain these settings in the docstring: `name` ..."


WRAPPED: dict[str, Callable[[Any], Any]] = {
    "The file": lambda one: one,
    "A contestant, which is an entry of `contestants:`": lambda one: {"contestants": {"x": one}},
    "`needs:` of a contestant": lambda one: {"contestants": {"x": {"needs": one}}},
    "`gap:`": lambda one: {"gap": {"from": "a", "to": "b", **one}},
    "`choose:`": lambda one: {"choose": {"by": "race", **one}},
    "`fragility:`": lambda one: {"fragility": one},
    "`thresholds:`": lambda one: {"thresholds": one},
    "An entry of `published:`": lambda one: {
        "published": {"x": {"source": "", "accuracy": {}, **one}}
    },
}
"""For each title of a mapping, a function that puts one entry into a study."""


@needs_extras
def test_every_key_has_a_description_and_a_matching_example() -> None:
    assert {title for title, _, _ in reference.study_mappings()} == set(WRAPPED)
    for title, mapping, _ in reference.study_mappings():
        for key, _, (meaning, example) in reference.keys_of(mapping):
            assert meaning.endswith(".") and f"- **`{key}`**" in PAGES["reference/study.md"]
            node = yaml.safe_load(example)
            assert list(node) == [key]
            assert find_shape_faults(WRAPPED[title](node)) == ([], []), (title, key)


def test_a_key_without_a_description_is_noticed() -> None:
    with pytest.raises(ValueError, match=r"Odd\.strange has no meaning"):
        list(reference.keys_of(type("Odd", (), {"__annotations__": {"strange": int}})))


def test_every_field_of_overlays_is_listed() -> None:
    words = ["use", "ref", "before", "after", "include", "null", "${...}"]
    assert [word for word in words if f"- **`{word}`**: " not in PAGES["reference/study.md"]] == []
    examples = {word: yaml.safe_load(entries.SPECIAL_KEYS[word][1]) for word in words}
    assert [word for word, example in examples.items() if not isinstance(example, dict)] == []
