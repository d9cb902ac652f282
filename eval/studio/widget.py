"""The studio in a notebook: the same page as a widget of anywidget, which talks through the kernel
and no server."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from looktwice.eval.page.render import page_file
from looktwice.eval.studio.desk import FAULTS, Desk
from looktwice.eval.studio.draft import MODELS, Draft, Node
from looktwice.eval.studio.opening import FIRST, take_pictures
from looktwice.eval.studio.server import SCRIPTS
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage

__all__ = ["studio_widget"]


def studio_widget(
    sample: Sample | Picture | str | Path,
    stages: Mapping[str, Stage] | None = None,
    models: Mapping[str, Node] = MODELS,
) -> Any:
    """The studio of a sample, or of a picture or its file, as a widget of a notebook.

    `stages` are those that it begins with, by their slots; `models` are nodes of those that may be
    asked, by name. What stands on the page is in its `marks`, `stages` and `yaml`; marks and stages
    that are set there show on the page. It needs `pip install 'looktwice[notebook]'`. Raises
    ModuleNotFoundError, PictureError.
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as exc:
        advice = f"{exc.name} is not installed; type: pip install 'looktwice[notebook]'"
        raise ModuleNotFoundError(advice, name=exc.name) from exc
    if not isinstance(sample, Sample):
        image = sample if isinstance(sample, Picture) else Picture.open(sample)
        sample = Sample("studio", Draft().question, (image,))
    folder = tempfile.TemporaryDirectory(prefix="looktwice-studio-", ignore_cleanup_errors=True)
    desk, item = Desk(Path(folder.name).resolve(), models), Item(sample, None)
    draft = Draft.of(item, stages or {}, take_pictures(desk, item), model=next(iter(models)))
    node = draft.to_dict() | ({} if stages else {"stages": [vars(slot) for slot in FIRST]})
    start = desk.start(draft) | {"draft": node}
    traits = {
        "marks": traitlets.List(node["marks"]).tag(sync=True),
        "stages": traitlets.List(node["stages"]).tag(sync=True),
        "yaml": traitlets.Unicode().tag(sync=True),
    }
    page = {"_esm": widget_script(), "_css": page_file("studio.css"), "folder": folder}
    widget = type("Studio", (anywidget.AnyWidget,), traits | page)()
    widget.on_msg(Talk(desk, start))
    return widget


def widget_script() -> str:
    """The page as a module of JavaScript whose default has `render`, as anywidget takes it."""
    body = f"const BODY = {json.dumps(page_file('studio_body.html'))};"
    return "\n".join([body, *map(page_file, (*SCRIPTS, "studio_widget.js"))])


class Talk:
    """Answers what the page of a widget asks for, with the pictures that it has not been sent."""

    def __init__(self, desk: Desk, start: Mapping[str, Any]) -> None:
        self.desk, self.begun, self.sent = desk, start, set[str]()

    def __call__(self, widget: Any, asked: Mapping[str, Any], buffers: Sequence[Any]) -> None:
        """Send the answer under the number that was asked, or why there is none."""
        what, reply = asked["what"], {"number": asked["number"]}
        data = bytes(buffers[0]) if buffers else json.dumps(asked.get("body")).encode()
        files = list[bytes]()
        try:
            made = self.begun if what == "start" else self.desk.answer(what, data)
            files += [made] if isinstance(made, bytes) else []
            reply["answer"] = None if isinstance(made, bytes) else made
        except FAULTS as exc:
            reply["faults"] = self.desk.say_faults(exc)
        except Exception as exc:  # else the page waits for ever
            reply["faults"] = [f"this failed in the kernel: {exc!r}"]
            raise
        finally:
            new = {sha: shown for sha, shown in self.desk.shown.items() if sha not in self.sent}
            self.sent |= new.keys()
            reply["pictures"] = [[sha, shown.media_type] for sha, shown in new.items()]
            widget.send(reply, [*(shown.data for shown in new.values()), *files])
