"""A sandbox in a container of Docker or Podman, which runs the Python of the container's image."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from looktwice.extras.python_tool.sandbox import PythonSandbox

__all__ = ["Container"]

NAME_PREFIX = "looktwice-python-"
CHECK_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Container(PythonSandbox):
    """A sandbox that runs Python in a new container for each sample, with Docker or Podman.

    `image` must be present (`docker pull` it) and have Python 3.11 or later as `python3`, and
    Pillow and numpy, without which there are no images. `engine` is the program. `runtime` is the
    engine's runtime, such as "runsc" (gVisor), which separates the sandbox from the kernel.
    """

    image: str = ""
    engine: Literal["docker", "podman"] = "docker"
    runtime: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("image", "runtime"):
            value = getattr(self, name)
            if value.startswith("-"):
                raise ValueError(
                    f"`{name}` must be a name that does not begin with '-', found {value!r}"
                )
        if not self.image:
            raise ValueError("image is needed, such as `image: my-python-with-pillow:1`")

    def start(self, program: str) -> subprocess.Popen[bytes]:
        """Start a container. Raises OSError."""
        command = [
            *(self.engine, "run", "--name", f"{NAME_PREFIX}{uuid.uuid4().hex}"),
            *self._list_options(),
            *(self.image, "python3", "-I", "-B", "-c", program),
        ]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)

    def _list_options(self) -> Iterator[str]:
        """Yield the engine's options: no network, no privileges, a read-only root, files in
        memory."""
        yield from ("--rm", "--interactive", "--pull", "never", "--network", "none", "--read-only")
        yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        yield from ("--user", "65534:65534", "--pids-limit", "32", "--entrypoint", "")
        yield from ("--memory", f"{self.memory_mb}m", "--memory-swap", f"{self.memory_mb}m")
        yield from ("--cpus", "1", "--workdir", "/", "--hostname", "sandbox")
        for folder in (self.folder, "/tmp"):
            yield from ("--tmpfs", f"{folder}:rw,noexec,nosuid,mode=1777,size={self.disk_mb}m")
        for name in ("OMP_NUM_THREADS=1", "MPLCONFIGDIR=/tmp", "HOME=/work", "PYTHONHASHSEED=0"):
            yield from ("--env", name)
        if self.runtime:
            yield from ("--runtime", self.runtime)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Remove the container, which would keep running if only the engine's client ended."""
        arguments = list(process.args) if isinstance(process.args, list) else []
        name = next((text for text in map(str, arguments) if text.startswith(NAME_PREFIX)), "")
        if name:
            subprocess.run([self.engine, "rm", "--force", name], capture_output=True, check=False)
        super().stop(process)

    def find_fault(self) -> str:
        """Return why the sandbox cannot run and what to install or start; "" if it can."""
        return _find_fault(self.engine, self.image)


@cache
def _find_fault(engine: str, image: str) -> str:
    rule = "Python code of a model never runs without a sandbox"
    if shutil.which(engine) is None:
        return f"`{engine}` is not on the PATH; {rule}, so install it, or use bubblewrap"
    command = [engine, "image", "inspect", image]
    try:
        found = subprocess.run(
            command, capture_output=True, check=False, timeout=CHECK_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"`{engine}` does not answer; {rule}, so start it, or use bubblewrap"
    if found.returncode:
        fault = f"has no image {image!r}, or is not running"
        return f"`{engine}` {fault}; {rule}, so type `{engine} pull {image}`, or use bubblewrap"
    return ""
