"""All views of an arm for a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import Model
from looktwice.pipelines.models.image_tokens import Size, image_rule
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.sample import naming
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting.views.resize import resize_view, scale_size

STEPS = 64  # sizes that are tried of a view, each a 64th less of its sides


class Option(NamedTuple):
    """A size of a view, and what it costs."""

    tokens: int
    size: Size


@dataclass(frozen=True)
class TokenBudget(Ranged, WithoutModel):
    """All views together at no more than `tokens`, as the model named `model` counts pictures: arms
    of one cost, whatever they show.

    The views that cost most shrink first, to what all may cost alike, so that a small crop keeps
    its pixels beside a large photograph; nothing is enlarged, and views that an earlier turn sent
    count as they were sent. `model: ${model.model}` names the one that is asked; a model whose rule
    is not known counts a token for 28 x 28 pixels, which a note says. Put it behind all stages that
    change views. It bounds the views that are there: those that `Verify` adds in later turns it
    bounds as its `fit`, and leaves them out where it has no room, which a note says; what the tools
    of an agent show it does not bound. Measured are `image_tokens`, of all views. Raises ValueError
    where the views of a first turn cost more at a 64th of their sides.
    """

    tokens: int
    model: str = ""

    ranges = ("tokens >= 1",)

    def __call__(self, state: State, model: Model) -> State:
        """The state with its views at these sizes."""
        rule, options = image_rule(self.model), list[list[Option]]()
        sent = {view.picture.sha for message in state.messages for view in message.views}
        for view in state.views:
            last = STEPS if view.picture.sha in sent else 1
            sizes = [scale_size(view.size, step / STEPS) for step in range(STEPS, last - 1, -1)]
            options.append([Option(rule.tokens(size), size) for size in dict.fromkeys(sizes)])
        chosen = self._within(options)
        kept = tuple(view for view in state.views if view.picture.sha in sent)
        if kept and not chosen:
            return state.replace(views=kept).with_notes("the budget of tokens has no room for more")
        with naming(state.sample):
            if len(chosen) < len(options):
                least = sum(min(sizes).tokens for sizes in options)
                raise ValueError(
                    f"{counted(len(options), 'view')} cost {least:,} tokens at the least, more than"
                    f" `tokens: {self.tokens}`; show fewer, or join them"
                    " (prompting.views.Concatenate)"
                )
            pairs = zip(state.views, chosen, strict=True)
            views = tuple(resize_view(view, option.size) for view, option in pairs)
        total = sum(option.tokens for option in chosen)
        guess = [] if rule.published else ["tokens of pictures are counted by a guess"]
        return state.replace(views=views).measured("image_tokens", total).with_notes(*guess)

    def _within(self, options: Sequence[Sequence[Option]]) -> list[Option]:
        """The largest of each view that costs no more than any other may, or else its cheapest;
        none where nothing fits."""
        cheapest = [min(sizes, key=attrgetter("tokens")) for sizes in options]
        for most in sorted({option.tokens for sizes in options for option in sizes}, reverse=True):
            chosen = [
                next((option for option in sizes if option.tokens <= most), least)
                for sizes, least in zip(options, cheapest, strict=True)
            ]
            if sum(option.tokens for option in chosen) <= self.tokens:
                return chosen
        return []
