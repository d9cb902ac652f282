"""The hint of an error about an unknown name: which known name was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[object], most: int = 1) -> str:
    """`; did you mean 'X'?` with the known names most like `word`, at most so many; empty where
    none is alike.

    Capitals count as small letters, and a space as an underscore.
    """
    by_folded = {_folded(str(name)): str(name) for name in known}
    near = difflib.get_close_matches(_folded(word), by_folded, most)
    return f"; did you mean {' or '.join(repr(by_folded[name]) for name in near)}?" if near else ""


def _folded(name: str) -> str:
    return name.casefold().replace(" ", "_")
