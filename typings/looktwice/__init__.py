"""The name above the five folders: tells the version, and in a checkout finds the folders at the
root.

The links beside this file serve type checkers alone; where a checkout has none, imports and tests
work all the same.
"""

from pathlib import Path

__all__ = ["__version__"]

# A checkout: the folders lie at its root. In an installed package they lie beside this file.
if Path(__file__).parent.parent.name == "typings":
    __path__.insert(0, str(Path(__file__).parents[2]))

__version__: str


def __getattr__(name: str) -> str:
    """The version, looked up when it is asked for: the look-up alone takes a tenth of the start of
    a command."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("looktwice")
    except PackageNotFoundError:  # a bare clone, read through `typings/` and never installed
        return "0+uninstalled"
