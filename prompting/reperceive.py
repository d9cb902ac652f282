"""Active re-perception: the model looks, doubts what it said, and looks again before it answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from looktwice.pipelines.model import Model
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.texts import Text, filled, read_texts
from looktwice.prompting.turns import Ask, answer_in, changes

__all__ = ["Reperceive"]

LOOK = """{prompt}

Look at the image first. Say what it shows, thing by thing, and what seems to be the answer at first sight."""
DOUBT = """Now doubt it: at first sight this image may mislead. Look at it again as if you had not seen it yet. Search \
for what you passed over or took for granted: edges, overlaps, shadows, sizes, what lies in front and what behind. Say \
what you see now, where it contradicts what you said before, and what the answer seems to be."""
CONCLUDE = """Look at the image one last time and weigh your observations. Then give your final answer to the question.

{prompt}"""


@dataclass(frozen=True)
class Reperceive:
    """A conversation of `turns` calls: look, doubt and look again, and conclude.

    BLINK-Twice's active re-perception (supplement, B.3): its words and number of turns are not published, these are
    ours. The first turn says `look` and shows the views, the last one `conclude`, those between `doubt`; `{prompt}`
    in them becomes the question as worded so far. One turn is the question alone, so that `turns` can be swept from
    one pass on. `attach` "all" shows the views again in every turn, "none" only in the first; what is sent of earlier
    turns is said by `history` of `ask`: its `images: latest` keeps one look in sight.

    The answer is read from the last reply, as everywhere. With a reader in `read` (`read: ${read}`) the record notes
    what was answered after each look and how often that changed.
    """

    turns: int = 3
    look: Text = LOOK
    doubt: Text = DOUBT
    conclude: Text = CONCLUDE
    attach: Literal["all", "none"] = "all"
    ask: Ask = field(default_factory=Ask)
    read: Stage | None = None

    def __post_init__(self) -> None:
        read_texts(self)
        if not 1 <= self.turns <= 100:
            raise ValueError(f"turns is a number of calls from 1 to 100, found {self.turns}")

    def __call__(self, state: State, model: Model) -> State:
        """The state with all turns. Raises ModelError, and ValueError where there is nothing to ask."""
        begun, answers = state, list[str | None]()
        for number in range(self.turns):
            ask = self.ask if number == 0 else replace(self.ask, attach=self.attach)
            state = ask(state.replace(prompt=self._words(number, begun.prompt)), model)
            if self.read is not None:
                answers.append(answer_in(state, self.read)[0])
        return state.replace(prompt=begun.prompt).noted(*([changes(answers)] if answers else []))

    def _words(self, number: int, prompt: str) -> str:
        if self.turns == 1:
            return prompt
        last = number == self.turns - 1
        return filled(self.look if number == 0 else self.conclude if last else self.doubt, prompt=prompt)
