"""All views of an arm for a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    its pixels beside a large photograph; nothing is enlarged. `model: ${model.model}` names the one
    that is asked; a model whose rule is not known counts a token for 28 x 28 pixels, which a note
    says. Put it behind all stages that change views. Measured are `image_tokens`, of all views.
    Raises ValueError where the views cost more at a 64th of their sides.
    """

    tokens: int
    model: str = ""

    ranges = ("tokens >= 1",)

    def __call__(self, state: State, model: Model) -> State:
        """The state with its views at these sizes."""
        rule, options = image_rule(self.model), list[list[Option]]()
        for view in state.views:
            sizes = [scale_size(view.size, step / STEPS) for step in range(STEPS, 0, -1)]
            options.append([Option(rule.tokens(size), size) for size in dict.fromkeys(sizes)])
        chosen = self._within(options)
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
        """The largest of each view that costs no more than any other may; none where nothing
        fits."""
        for most in sorted({option.tokens for sizes in options for option in sizes}, reverse=True):
            firsts = (next((o for o in sizes if o.tokens <= most), None) for sizes in options)
            chosen = [option for option in firsts if option is not None]
            if len(chosen) == len(options) and sum(o.tokens for o in chosen) <= self.tokens:
                return chosen
        return []
