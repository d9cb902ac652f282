"""The name above the five folders: it tells the version, and holds links to the folders for type checkers."""

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """The version, looked up when it is asked for: the look-up alone takes a tenth of the start of a command."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("looktwice")
    except PackageNotFoundError:  # a bare clone, read through `typings/` and never installed
        return "0+uninstalled"
