"""The program that runs inside a sandbox: it executes pieces of Python one after another in one
namespace, and reports their output and pictures as JSON lines.

The host passes the text of this file to the interpreter of the sandbox, so it imports nothing of
looktwice, and third-party packages only if they are installed. The host treats everything that it
reports as untrusted.
"""

# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import ast
import base64
import gc
import hashlib
import io
import json
import linecache
import os
import sys
import traceback
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif")
FRAME_KEY = "looktwice frame"
"""The key in `info` of a Pillow image whose value is its frame: the number of the source image, the
affine map from the source image to this one as (a, b, c, d, e, f) in pixel centres, and the size of
this image for which the map is valid."""
Frame = tuple[int, tuple[float, ...], tuple[int, int]]
MAX_TRACE_LINES = 12
MAX_LINE_LENGTH = 300  # characters of a line of a traceback


class BoundedText(io.TextIOBase):
    """A text stream that stores the first `limit` characters and counts the others."""

    def __init__(self, limit: int) -> None:
        self.limit, self.kept, self.size, self.left_out = limit, list[str](), 0, 0

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        kept = text[: self.limit - self.size]
        self.size += len(kept)
        self.left_out += len(text) - len(kept)
        if kept:
            self.kept.append(kept)
        return len(text)

    @property
    def text(self) -> str:
        """The stored text, followed by the number of characters left out, if any."""
        more = f"\n[{self.left_out:,} more characters are left out]" if self.left_out else ""
        return "".join(self.kept) + more


def compose_maps(second: tuple[float, ...], first: tuple[float, ...]) -> tuple[float, ...]:
    """Return the affine map that applies `first`, then `second`."""
    a, b, c, d, e, f = second
    p, q, r, s, t, u = first
    return (
        *(a * p + b * s, a * q + b * t, a * r + b * u + c),
        *(d * p + e * s, d * q + e * t, d * r + e * u + f),
    )


def map_resize(old: Any, new: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the affine map of `Image.resize`, whose third argument may be the box to resize."""
    box = kwargs.get("box") or (args[2] if len(args) > 2 else None) or (0, 0, *old.size)
    sx, sy = new.size[0] / (box[2] - box[0]), new.size[1] / (box[3] - box[1])
    return (sx, 0.0, (sx - 1) / 2 - box[0] * sx, 0.0, sy, (sy - 1) / 2 - box[1] * sy)


def map_crop(old: Any, new: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the affine map of `Image.crop`."""
    box = kwargs.get("box") or (args[0] if args else None) or (0, 0)
    return (1.0, 0.0, -float(round(box[0])), 0.0, 1.0, -float(round(box[1])))


def map_transpose(old: Any, new: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the affine map of `Image.transpose`, whose methods are numbered 0 to 6."""
    right, bottom = old.size[0] - 1.0, old.size[1] - 1.0
    return (
        (-1.0, 0.0, right, 0.0, 1.0, 0.0),
        (1.0, 0.0, 0.0, 0.0, -1.0, bottom),
        (0.0, 1.0, 0.0, -1.0, 0.0, right),
        (-1.0, 0.0, right, 0.0, -1.0, bottom),
        (0.0, -1.0, bottom, 1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 1.0, 0.0, 0.0),
        (0.0, -1.0, bottom, -1.0, 0.0, right),
    )[int(args[0] if args else kwargs["method"])]


def map_unknown(old: Any, new: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return None, since the affine map of this method is not tracked."""
    return None


TRACKED_METHODS: dict[str, Callable[..., Any]] = {
    "crop": map_crop,
    "resize": map_resize,
    "transpose": map_transpose,
    "reduce": map_unknown,
    "transform": map_unknown,
}
"""The methods of Pillow images that return an image with other coordinates, and for each the
function that computes the affine map."""


def track_frames(image_class: Any) -> None:
    """Patch `thumbnail` and the methods in `TRACKED_METHODS` of Pillow's image class, so that they
    update the frame of the image."""

    def wrap(name: str, find_map: Callable[..., Any]) -> None:
        method = getattr(image_class, name)

        def tracked(self: Any, *args: Any, **kwargs: Any) -> Any:
            frame = read_frame(self)
            made = method(self, *args, **kwargs)
            if made is self:
                return made
            made.info.pop(FRAME_KEY, None)
            if frame and (moved := find_map(self, made, args, kwargs)):
                made.info[FRAME_KEY] = (frame[0], compose_maps(moved, frame[1]), made.size)
            return made

        tracked.__doc__ = method.__doc__
        setattr(image_class, name, tracked)

    for name, find_map in TRACKED_METHODS.items():
        wrap(name, find_map)
    shrink = image_class.thumbnail

    def thumbnail(self: Any, *args: Any, **kwargs: Any) -> None:
        frame, before = read_frame(self), self.size
        shrink(self, *args, **kwargs)
        sx, sy = self.size[0] / before[0], self.size[1] / before[1]
        if frame:
            moved = (sx, 0.0, (sx - 1) / 2, 0.0, sy, (sy - 1) / 2)
            self.info[FRAME_KEY] = (frame[0], compose_maps(moved, frame[1]), self.size)

    image_class.thumbnail = thumbnail


def read_frame(image: Any) -> Frame | None:
    """Return the frame of an image if it is known and valid for the image's present size."""
    frame = getattr(image, "info", {}).get(FRAME_KEY)
    return frame if frame and tuple(frame[2]) == tuple(image.size) else None


class Session:
    """The namespace in which the code of one sample runs, with the pictures that it shows."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.most_text, self.most_pictures = fields["characters"], fields["pictures"]
        self.most_pixels, self.number = fields["megapixels"] * 1e6, 0
        self.shown, self.notes = list[dict[str, Any]](), list[str]()
        self.seen, self.saved = set[str](), dict[str, Frame]()
        self.known, self.image_kind = dict[str, tuple[int, int]](), None
        self.names: dict[str, Any] = {"__name__": "__main__", "show": self.show, "images": []}
        with suppress(ImportError):
            from PIL import Image

            Image.MAX_IMAGE_PIXELS = 200_000_000
            track_frames(Image.Image)
            self._track_saves(Image.Image)
            self.image_kind = Image.Image

    def add_image(self, number: int, size: tuple[int, int], pixels: bytes) -> None:
        """Make an image available as `image_N`, in `images`, and as the file image_N.png."""
        if self.image_kind is None:
            raise RuntimeError("the sandbox's Python has no Pillow")
        from PIL import Image

        image = Image.frombytes("RGB", size, pixels)
        image.save(f"image_{number}.png", compress_level=1)
        image.info[FRAME_KEY] = (number, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0), image.size)
        self.names[f"image_{number}"] = image
        self.names["images"] = [*self.names["images"], image]
        self.known[f"image_{number}.png"] = self._get_stamp(f"image_{number}.png")

    def show(self, picture: Any, image: int = 0, box: Any = None) -> None:
        """Show a picture (a Pillow image, an array of RGB or grey values, or a figure) to the
        model. `image` and `box` name the part of an image that it shows, if that is not known."""
        made, frame = self._make_image(picture)
        if image:
            left, top, right, bottom = box or (0, 0, *self.names["images"][image - 1].size)
            sx, sy = made.size[0] / (right - left), made.size[1] / (bottom - top)
            moved = (sx, 0.0, (sx - 1) / 2 - left * sx, 0.0, sy, (sy - 1) / 2 - top * sy)
            frame = (image, moved, made.size)
        self._add_picture(made, frame)

    def run(self, code: str) -> dict[str, Any]:
        """Run a piece of code and return its output, its error and its pictures."""
        self.shown, self.notes, self.seen = [], [], set()
        self.number += 1
        out = BoundedText(self.most_text)
        sys.stdout = sys.stderr = out
        name = f"<cell {self.number}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        error = ""
        try:
            self._run_statements(code, name)
        except SystemExit as exc:
            error = f"SystemExit: {exc.code}"
        except BaseException as exc:
            error = format_error(exc, name)
        try:
            self._collect_figures()
            self._collect_files()
        except BaseException as exc:
            error = error or format_error(exc, name)
        sys.stdout = sys.stderr = io.StringIO()
        gc.collect()
        result = {"output": out.text, "error": error, "pictures": self.shown, "notes": self.notes}
        return {**result, "versions": find_versions()}

    def _run_statements(self, code: str, name: str) -> None:
        """Run the statements; if the last one is an expression, show or print its value."""
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), self.names)
        if last is None:
            return
        value = eval(compile(ast.Expression(last.value), name, "eval"), self.names)
        if self.image_kind is not None and isinstance(value, self.image_kind):
            self.show(value)
        elif value is not None:
            sys.stdout.write(f"{value!r}\n")

    def _make_image(self, picture: Any) -> tuple[Any, Frame | None]:
        """Convert a picture to a Pillow image, and return it with its frame."""
        if self.image_kind is None:
            raise RuntimeError("pictures cannot be shown: the sandbox's Python has no Pillow")
        from PIL import Image

        if hasattr(picture, "savefig"):
            stream = io.BytesIO()
            picture.savefig(stream, format="png")
            picture = Image.open(stream)
        if isinstance(picture, self.image_kind):
            return picture, read_frame(picture)
        import numpy as np

        array = np.asarray(picture)
        if array.dtype == bool:
            array = array * np.uint8(255)
        elif array.dtype != np.uint8:
            high = 255.0 if array.dtype.kind == "f" and array.size and array.max() <= 1 else 1.0
            array = np.nan_to_num(array * high).clip(0, 255).astype(np.uint8)
        return Image.fromarray(array.squeeze()), None

    def _add_picture(self, image: Any, frame: Frame | None) -> None:
        """Add a picture to the report; shrink it if it has too many pixels, and note the pictures
        beyond the limit."""
        share = (self.most_pixels / max(1, image.size[0] * image.size[1])) ** 0.5
        if share < 1:
            image = image.copy()
            if frame:
                image.info[FRAME_KEY] = frame
            image = image.resize([max(1, int(side * share)) for side in image.size])
            frame = read_frame(image)
            self.notes.append(f"a picture was made smaller, to {image.size[0]} x {image.size[1]}")
        stream = io.BytesIO()
        image.convert("RGB").save(stream, "PNG")
        digest = hashlib.sha256(stream.getvalue()).hexdigest()
        if digest in self.seen:  # shown and saved
            return
        self.seen.add(digest)
        if len(self.shown) >= self.most_pictures:
            self.notes.append(f"a picture is left out; at most {self.most_pictures} are shown")
            return
        shown: dict[str, Any] = {"png": base64.b64encode(stream.getvalue()).decode()}
        if frame:
            shown |= {"image": frame[0], "map": list(frame[1])}
        self.shown.append(shown)

    def _track_saves(self, image_class: Any) -> None:
        """Patch Pillow's `save`, so that saved files keep the frames of their images."""
        method, saved = image_class.save, self.saved

        def save(image: Any, to: Any, *args: Any, **kwargs: Any) -> None:
            method(image, to, *args, **kwargs)
            if isinstance(to, str | os.PathLike) and (frame := read_frame(image)):
                saved[os.path.abspath(to)] = frame

        image_class.save = save

    def _collect_figures(self) -> None:
        plots: Any = sys.modules.get("matplotlib.pyplot")
        for number in plots.get_fignums() if plots else ():
            self.show(plots.figure(number))
        if plots:
            plots.close("all")

    def _collect_files(self) -> None:
        """Show the image files that the code wrote or changed in the working folder."""
        for name in sorted(os.listdir(".")):
            if not name.lower().endswith(IMAGE_ENDINGS) or not os.path.isfile(name):
                continue
            stamp = self._get_stamp(name)
            if self.known.get(name) == stamp:
                continue
            self.known[name] = stamp
            from PIL import Image

            try:
                with Image.open(name) as opened:
                    opened.load()
                    frame = self.saved.get(os.path.abspath(name))
                    self._add_picture(opened, frame if frame and opened.size == frame[2] else None)
            except (OSError, ValueError, SyntaxError) as exc:
                self.notes.append(f"{name[:80]} cannot be shown ({type(exc).__name__})")

    def _get_stamp(self, name: str) -> tuple[int, int]:
        found = os.stat(name)
        return found.st_mtime_ns, found.st_size


def format_error(exc: BaseException, name: str) -> str:
    """Return a short traceback: the lines of the model's own code, and the exception."""
    lines, frames = list[str](), traceback.extract_tb(exc.__traceback__)
    for frame in frames:
        if frame.filename.startswith("<cell "):
            lines.append(f"{frame.filename[1:-1]}, line {frame.lineno}: {frame.line}")
    last = traceback.format_exception_only(exc)
    lines = [*lines[-MAX_TRACE_LINES:], *(line.rstrip() for line in last[-4:])]
    return "\n".join(line[:MAX_LINE_LENGTH] for line in lines)


def set_limits(memory_mb: int, disk_mb: int) -> None:
    """Limit memory, file sizes and open files of this process and its child processes."""
    import resource

    def limit(kind: int, most: int) -> None:
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))

    limit(resource.RLIMIT_AS, memory_mb << 20)
    limit(resource.RLIMIT_FSIZE, disk_mb << 20)
    limit(resource.RLIMIT_NOFILE, 128)
    limit(resource.RLIMIT_CORE, 0)


def find_versions() -> dict[str, str]:
    """Return the versions of Python and of the image packages that were imported."""
    found = {"python": sys.version.split()[0]}
    for name in ("PIL", "numpy", "cv2", "scipy", "skimage", "matplotlib"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version[:40]
    return found


def main() -> None:
    """Answer requests until the host closes the input."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # keep the output of libraries out of the answers
        os.dup2(null, descriptor)
    fields = json.loads(requests.readline())
    for path in reversed(fields["path"]):
        sys.path.insert(0, path)
    os.chdir(fields["folder"])
    sys.path.insert(0, fields["folder"])
    set_limits(fields["memory_mb"], fields["disk_mb"])
    session = Session(fields)

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value).encode() + b"\n")
        answers.flush()

    answer({"python": sys.version.split()[0]})
    for line in requests:
        request = json.loads(line)
        for image in request["images"]:
            pixels = zlib.decompress(base64.b64decode(image["pixels"]))
            session.add_image(image["number"], tuple(image["size"]), pixels)
        answer(session.run(request["code"]))


if __name__ == "__main__":
    main()
