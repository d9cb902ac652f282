"""Draws one SVG from standard input as a PNG on standard output, with limits on memory and time;
run as a separate process."""

from __future__ import annotations

import importlib
import sys

MAX_MEMORY_BYTES = 2 << 30  # bytes of address space
MAX_CPU_SECONDS = 15


def main() -> None:
    """Draw the SVG on white at the size that the command line gives: `svg_process.py WIDTH
    HEIGHT`."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # missing on Windows, where the caller's time limit applies
        resource = None
    renderer = importlib.import_module("resvg_py")
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    width, height = (int(side) for side in sys.argv[1:3])
    svg = sys.stdin.buffer.read().decode()
    sys.stdout.buffer.write(
        renderer.svg_to_bytes(svg_string=svg, width=width, height=height, background="white")
    )


if __name__ == "__main__":
    main()
