"""The name above the five folders: it holds the version, and links to the folders for type checkers."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("looktwice")
except PackageNotFoundError:  # a bare clone, read through `typings/` and never installed
    __version__ = "0+uninstalled"
