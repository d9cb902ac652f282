"""Full disks: no request is sent after the fatal error, the message names the folder, and repeating
the command continues the run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.soak.chaos import list_missing_and_duplicate
from bench.soak.hostile_server import good, hostile_server
from bench.soak.scene import Finding, faults, finding, looktwice, write_study

WORKERS, SAMPLES = 8, 150
SMALL_DISK = """
size=$0; disk=$1; keep=$2; shift 2
mount -t tmpfs -o "size=$size" full "$disk" || exit 99
"$@"; code=$?
cp -a "$disk/." "$keep"; exit $code
"""


def small_disk(size: str, disk: Path, keep: Path) -> list[str]:
    """Return a command prefix that makes `disk` a small disk and keeps its files; empty if this
    machine does not allow it."""
    disk.mkdir()
    keep.mkdir()
    permitted = (
        shutil.which("unshare")
        and not subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode
    )
    return (
        ["unshare", "-Urm", "sh", "-c", SMALL_DISK, size, str(disk), str(keep)] if permitted else []
    )


def full_cache(folder: Path, samples: int = SAMPLES) -> Iterator[Finding]:
    """Fill the disk of the reply cache in the middle of a run."""
    yield from _full(
        folder, "the disk of the cache", folder / "runs", folder / "disk", "300k", samples
    )


def full_run_folder(folder: Path, samples: int = SAMPLES) -> Iterator[Finding]:
    """Fill the disk of the run folder in the middle of a run."""
    yield from _full(
        folder, "the disk of the run folder", folder / "disk", folder / "cache", "150k", samples
    )


def _full(
    folder: Path, place: str, out: Path, cache: Path, size: str, samples: int
) -> Iterator[Finding]:
    disk, keep = folder / "disk", folder / "kept"
    before = small_disk(size, disk, keep)
    with hostile_server(lambda body, before: good(0.02)) as server:
        config = write_study(folder, server.url, (f"Is {n} even?" for n in range(samples)))
        words = ["run", config, "--out", out, "--cache", cache, "--workers", WORKERS]
        limit = None if before else 120_000  # maximum bytes of a file if no small disk is possible
        ended = looktwice(*words, url=server.url, before=before, file_bytes=limit)
        asked = len(server.exchanges)
        if before:
            shutil.copytree(keep, disk, dirs_exist_ok=True)
        wrong = faults(ended, {1, 2}, [str(disk) if before else str(folder)])
        wrong += [f"{asked} of {samples} asked"] if not 0 < asked < samples else []
        wrong += [f"{part.name} stayed" for part in folder.rglob("*.part")]
        yield finding(
            "full disk",
            f"{place} is full",
            f"exit {ended.code} after {asked} of {samples}",
            wrong,
            ended,
        )
        ended = looktwice(*words, url=server.url)
        twice = len(server.exchanges) - samples
        wrong = faults(ended, {0}) + list_missing_and_duplicate(out, samples)
        wrong += [f"{twice} paid twice"] if not 0 <= twice <= WORKERS + 1 else []
        figure = f"{samples} recorded, {twice} paid twice ({WORKERS} were in flight)"
        yield finding("full disk", f"{place}: the same command later", figure, wrong, ended)
