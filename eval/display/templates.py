"""The HTML templates of eval/templates, loaded so that every text is escaped and an unknown name is
an error."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def template(name: str) -> Any:
    """The template of eval/templates with this file name."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("looktwice.eval", "templates")
    env = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return env.get_template(name)
