"""The common internal form of requests: a question with its turns, pictures and options, and the
limits for clients' requests."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field

from looktwice.pipelines.config.spec import digest
from looktwice.pipelines.json_input import FORBID_EXTRA, read_as
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.model import CallOptions, Message, Tool
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import PLACEHOLDERS_FIELD, Sample, check_marks

Json = dict[str, Any]
Text = Annotated[str, Field(min_length=1)]
TokenCount = Annotated[int, Field(ge=1, le=10**9)]
EXTENSION_FIELD = "looktwice"  # the field for data of clients and `serve` that the protocol lacks
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
MAX_BYTES = 64 << 20  # bytes of a request
MAX_PICTURES = 256
MAX_VALUES = 1_000_000  # values in the JSON of a request
MAX_REPLIES = 128  # to one request, which sets `n`
VIDEO_PART_TYPES = ("video", "video_url", "input_video")
"""Types of parts that hold a video, in the protocols and their usual extensions."""
NO_VIDEOS_ERROR = (
    "videos are not accepted here; send the frames of a video as images, each after a text with its"
    " time, such as 'At 1.5 s:'"
)
Request = TypeVar("Request", bound=BaseModel)


def refuse_video(kind: Any) -> Any:
    """Return `kind`, the type of a part. Raises ValueError for a video, which stages would take for
    a picture."""
    if kind in VIDEO_PART_TYPES:
        raise ValueError(NO_VIDEOS_ERROR)
    return kind


def read_data_url(url: str) -> Picture:
    """Decode the picture in a data URL. Raises ValueError; nothing is fetched."""
    head, _, data = url.partition(",")
    if not (head.startswith("data:image/") and head.endswith(";base64")):
        raise ValueError(
            "an image must be a data URL, data:image/...;base64,...; nothing is fetched"
        )
    try:
        picture = Picture.encoded(base64.b64decode(data, validate=True), "the image")
        picture.size  # noqa: B018  # raises PictureError here if it is not an image
        return picture
    except (binascii.Error, PictureError) as exc:
        raise ValueError(f"an image cannot be read: {exc}") from exc


class ClientFacts(BaseModel, **FORBID_EXTRA):
    """Facts about a question that a client sends as `extra_body={"looktwice": {...}}`; only scoring
    reads the `answer`."""

    id: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")] | None = None
    marks: list[Json] = []
    choices: list[str] = []
    answer: Text | None = None
    meta: Json = {}


@dataclass(frozen=True, eq=False)
class Question:
    """A client's question: its turns (the user's last one is the `sample`), the options, and the
    number of replies.

    A `stream` ends with its token counts if `wants_usage`. No stage sees the `answer`, and only the
    record holds the `extra_fields`. `field_names` maps names of `CallOptions` to those in the
    protocol where they differ.
    """

    model: str
    turns: tuple[Message, ...]
    sample: Sample
    options: CallOptions
    reply_count: int
    stream: bool
    extra_fields: Mapping[str, str] = field(default_factory=dict)
    wants_usage: bool = False
    answer: str | None = None
    field_names: Mapping[str, str] = field(default_factory=dict)


def make_question(
    model: str,
    turns: Iterable[Message],
    options: CallOptions,
    known: ClientFacts,
    *,
    reply_count: int = 1,
    stream: bool = False,
    extra_fields: Mapping[str, str] | None = None,
    wants_usage: bool = False,
    field_names: Mapping[str, str] | None = None,
) -> Question:
    """Make a question from a client's turns and settings. Raises ValueError for a picture that
    cannot be decoded, and for marks outside the picture."""
    turns = tuple(turns)
    for view in (view for turn in turns for view in turn.views):
        view.picture.payload  # noqa: B018  one that cannot be decoded is refused now
    sample = make_sample(turns, known)
    check_marks(sample)
    return Question(
        model,
        turns,
        sample,
        options,
        reply_count,
        stream,
        extra_fields or {},
        wants_usage,
        known.answer,
        field_names or {},
    )


def read_request(kind: type[Request], raw: bytes) -> Request:
    """Parse the body of a request. Raises ValueError, which describes the first fault."""
    if sum(map(raw.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    request: Request = read_as(kind, raw)
    return request


def refuse_unknown(
    request: BaseModel, ignored: Set[str], neutral: Mapping[str, Any] | None = None
) -> None:
    """Raise ValueError for unsupported fields that may affect a reply.

    Fields in `ignored`, fields that have their value in `neutral`, and fields that are false or
    null never affect it.
    """
    given = (request.model_extra or {}).items()
    if strange := [
        name
        for name, value in given
        if name not in ignored and value not in (None, False, (neutral or {}).get(name))
    ]:
        raise ValueError(f"{' and '.join(strange)}: not supported here; leave it out")


def choose_tool(called: str | None, tools: Sequence[Tool]) -> str | None:
    """Return a request's choice of a tool in the form of `CallOptions`: None if the choice is left
    to the model. Raises ValueError for a choice without tools."""
    if called not in (None, "auto", "none") and not tools:
        raise ValueError(f"tool_choice: {called}, but there are no tools; send `tools`, too")
    return None if called == "auto" or not tools else called


def make_sample(turns: Sequence[Message], known: ClientFacts) -> Sample:
    """Convert the user's last turn to a sample: its text with `<image 1>` and so on in place of
    pictures, and the known facts. Raises ValueError.

    Without an id, the sample is named by a digest of its content.
    """
    asked = next((turn for turn in reversed(turns) if turn.role == "user"), Message("user", ()))
    words, pictures = "", list[Picture]()
    for before, part in zip(("", *asked.parts), asked.parts, strict=False):
        if isinstance(part, str):
            apart = isinstance(before, str) and bool(words)
            words += f"\n{part}" if apart else part
        else:
            pictures.append(part.picture)
            words += f"<image {len(pictures)}>"
    if len(pictures) > MAX_PICTURES:
        raise ValueError(f"{len(pictures)} images in one turn; the maximum is {MAX_PICTURES}")
    marks = tuple(map(mark_from_dict, known.marks))
    meta = {**known.meta, PLACEHOLDERS_FIELD: True} if pictures else known.meta
    sample = Sample("", words, tuple(pictures), tuple(known.choices), marks, meta)
    return replace(sample, id=known.id or digest(sample.to_dict()))
