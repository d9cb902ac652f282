"""The name above the six folders: tells the version, and in a checkout finds the folders at the
root.

The links beside this file serve type checkers alone; where a checkout has none, imports and tests
work all the same.
"""

from importlib import import_module
from pathlib import Path

__all__ = ["__version__"]

# A checkout: the folders lie at its root. In an installed package they lie beside this file.
if Path(__file__).parent.parent.name == "typings":
    __path__.insert(0, str(Path(__file__).parents[2]))

__version__: str


ROOMS = ("eval", "pipelines", "prompting", "specialists")


def __getattr__(name: str) -> str:
    """The version, looked up when it is asked for: the look-up alone takes a tenth of the start of
    a command. Raises ImportError that says where a name of ours is imported from."""
    if name != "__version__":
        for room in ROOMS if name not in ROOMS and not name.startswith("_") else ():
            if name in import_module(f"{__name__}.{room}").__all__:
                raise ImportError(f"type: from {__name__}.{room} import {name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("looktwice")
    except PackageNotFoundError:  # a bare clone, read through `typings/` and never installed
        return "0+uninstalled"
