"""Several turns on one question: re-perception, in which the model is asked to doubt what it saw;
verification, in which it is shown crops of its evidence; self-consistency, a majority vote over
answers; and stages that run only if the confidence is low."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.model import Model
from looktwice.pipelines.pipeline import RecordingModel, count_calls
from looktwice.pipelines.ranges import Ranged, check_ranges
from looktwice.pipelines.state import Call, Stage, State
from looktwice.prompting.coordinates import UNIT_PHRASES
from looktwice.prompting.turns.ask import Ask, measure_turns, read_answer
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.views.zoom import Zooming
from looktwice.prompting.where.sources import Claimed
from looktwice.prompting.wording.instructions import Text, fill_in, read_texts

LOOK_PROMPT = """{prompt}

Look at the image first. Say what it shows, thing by thing, and what seems to be the answer at \
first sight."""
DOUBT_PROMPT = """\
Now doubt it: at first sight this image may mislead. Look at it again as if you had not seen it \
yet. Search \
for what you passed over or took for granted: edges, overlaps, shadows, sizes, what lies in front \
and what behind. Say \
what you see now, where it contradicts what you said before, and what the answer seems to be."""
CONCLUDE_PROMPT = """\
Look at the image one last time and weigh your observations. Then give your final answer to the \
question.

{prompt}"""


@dataclass(frozen=True)
class Reperceive:
    """Active re-perception in `turns` calls: describe the image, doubt the description, and
    conclude.

    After BLINK-Twice (supplement, B.3), which publishes neither its prompts nor its number of
    turns; these are ours. The first turn sends `look` with the views, the last one `conclude`, and
    those in between `doubt`; `{prompt}` in them is replaced by the question as worded so far. With
    one turn only the question is asked, so that `turns` can be swept from 1. `attach` "all" shows
    the views again in every turn, "none" only in the first; the `history` of `ask` sets which parts
    of earlier turns are sent: its `images: latest` sends only the latest images.

    The answer is read from the last reply and, when the run is scored, from the reply of every
    turn. With a reader in `read` (`read: ${read}`) the record also notes the answer after each turn
    and measures how often it changed.
    """

    turns: int = 3
    look: Text = LOOK_PROMPT
    doubt: Text = DOUBT_PROMPT
    conclude: Text = CONCLUDE_PROMPT
    attach: Literal["all", "none"] = "all"
    ask: Ask = field(default_factory=Ask)
    read: Stage | None = None

    def __post_init__(self) -> None:
        read_texts(self)
        check_ranges(self, "turns >= 1", "turns <= 100")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with all turns. Raises ModelError, and ValueError if there is nothing to
        ask."""
        original, answers, calls = state.prompt, list[str | None](), list[int]()
        texts: list[Text] = [self.look, *[self.doubt] * (self.turns - 2), self.conclude]
        ask = self.ask
        for text in texts if self.turns > 1 else ["{prompt}"]:
            state = ask(state.replace(prompt=fill_in(text, prompt=original)), model)
            ask = replace(self.ask, attach=self.attach)
            answers += [read_answer(state, self.read)[0]] if self.read else []
            calls.append(count_calls(state, model) - 1)
        return measure_turns(state.replace(prompt=original), calls, answers)


EVIDENCE_PROMPT = """{prompt}

Give your answer, and then say what it rests on: for each thing that decides it a line of its own, \
such as
LOOK: image 1, [left, top, right, bottom]
with the box around it in {unit}."""
CHECK_PROMPT = """\
Here is what you pointed at, larger. Check if it really shows what you said, then give your final \
answer.

{prompt}"""


@dataclass(frozen=True)
class ZoomOnClaim(Zooming, Claimed):
    """Zooms in on the boxes in the model's last reply, like `prompting.views.Look` with
    `prompting.where.Claimed` as its source. `crop` sets how they are cropped; if no box is left,
    `missing` decides.
    """

    crop: Crop = field(default_factory=lambda: Crop(upscale=768))


@dataclass(frozen=True)
class Verify:
    """Asks for an answer and its evidence, then zooms in on that evidence and asks again, `rounds`
    times.

    The first turn sends `where` ({prompt} and {unit} are filled in), the later ones `check`. `zoom`
    may be any stage that changes views: `ZoomOnClaim`, `prompting.views.ZoomOnCells` with the grid
    that the views have, and as control arms `prompting.controls.OracleCrop` and `RandomCrop`;
    `prompting.views.Show` at `prompting.where.Claimed` with `points` draws the points that the
    model named. Each zoom is cut from the original views. The new views are sent with the next
    turn, through the stage `fit`: with `prompting.views.TokenBudget`, all views of all turns
    together stay within its tokens. If there is no new view, the question is asked again anyway, so
    that every sample makes the same number of calls. `ask` sends each turn. With a reader in `read`
    the record notes the answers before and after, and measures how often they changed.
    """

    where: Text = EVIDENCE_PROMPT
    check: Text = CHECK_PROMPT
    zoom: Stage = field(default_factory=ZoomOnClaim)
    rounds: int = 1
    ask: Ask = field(default_factory=Ask)
    read: Stage | None = None
    fit: Stage | None = None

    def __post_init__(self) -> None:
        read_texts(self)
        check_ranges(self, "rounds >= 1", "rounds <= 100")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with all turns; its views are the original ones and every zoom that was
        shown."""
        first, original = state.views, state.prompt
        answers, calls = list[str | None](), list[int]()
        source = getattr(self.zoom, "where", self.zoom)
        unit, ask, words = UNIT_PHRASES[getattr(source, "frame", "pixels")], self.ask, self.where
        for number in range(self.rounds + 1):
            if number:
                after = self.zoom(state.replace(views=first, prompt=original), model)
                if after.ended:
                    return after
                shown = {view.picture.sha for view in state.views}
                fresh = [view for view in after.views if view.picture.sha not in shown]
                state = after.replace(views=(*state.views, *fresh))
                state = self.fit(state, model) if self.fit and fresh else state
                ask, words = replace(self.ask, attach="new"), self.check
            state = ask(state.replace(prompt=fill_in(words, prompt=original, unit=unit)), model)
            answers += [read_answer(state, self.read)[0]] if self.read else []
            calls.append(count_calls(state, model) - 1)
        return measure_turns(state.replace(prompt=original), calls, answers)


@dataclass(frozen=True)
class Ballot:
    """One draw of a vote: its final state, its answer, and the key under which the answer is
    counted."""

    state: State
    answer: str | None
    key: str
    reason: str


@dataclass(frozen=True)
class Vote(Ranged):
    """Runs a stage `n` times with separate draws, reads each reply, and answers with the majority.

    Self-consistency (Wang et al. 2023; BLINK, Appendix C.3: five draws at temperature 1, which
    `stage: {options: {temperature: 1}}` requests). `stage` may be any stage that asks, including
    one with several turns, or a whole pipeline in which `prompting.controls.PermuteChoices` gives
    each draw another order of the choices: votes count for the task's own letters. `read` reads the
    answers, ideally by reference, `read: ${read}`. Draw k of the run uses the draws k * n, k * n +
    1 ..., so no two draws share a call; the first n draws of an arm without votes make the same
    calls as draw 0 of the vote. With `styles` the draws differ: draw k first runs the k-th of these
    stages, starting over after the last, such as markers of another style, other views, or another
    wording.

    On a tie, `tie` "first" takes the answer that was given first, "random" a random one, and
    "abstain" none. The confidence is the winner's share of all draws, including unreadable ones. If
    no reply can be read there is no answer, and the most frequent reason is given. `stop_early`
    ends the draws once no other answer can win. With `tokens` they end once all calls, including
    those of other models, have used this many input and output tokens, and `n` is the maximum. The
    result is the state of the first draw with the winning answer. Measures the `vote_share` of the
    winner and the `votes`; the answers by turn are the majorities after each draw.
    """

    read: Stage
    stage: Stage = field(default_factory=Ask)
    n: int = 5
    tie: Literal["first", "abstain", "random"] = "first"
    stop_early: bool = False
    tokens: int | None = None
    styles: tuple[Stage, ...] = ()

    ranges = ("n, tokens >= 1",)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the answer of the majority. An exception in the stage is not
        caught, so one failing draw fails the whole vote."""
        recorder = model
        if not isinstance(recorder, RecordingModel):
            recorder = RecordingModel(model, state.sample.id)
        calls_before, trace, ended = len(recorder.calls), state.trace, ""
        ballots: list[Ballot] = []
        turns: list[int] = []
        for number in range(self.n):
            ended = self._find_stop_reason(ballots, recorder.calls[calls_before:])
            if ended:
                break
            draw = state.draw * self.n + number
            styled = state.replace(draw=draw, trace=trace)
            if self.styles:
                styled = self.styles[number % len(self.styles)](styled, recorder)
            after = self.stage(styled, recorder)
            trace = after.trace
            ballots.append(self._read_ballot(after))
            turns.append(count_calls(after, recorder) - 1)
        after = self._choose_final_state(state, ballots, ended).replace(
            draw=state.draw, trace=trace
        )
        # after each draw, the answer with the most votes so far, in the letters as asked
        asked = {own: shown for shown, own in after.letters.items()}
        first = {ballot.key: ballot.answer for ballot in reversed(ballots)}
        leaders: list[str | None] = []
        for count in range(1, len(ballots) + 1):
            ranked = _count_votes(ballots[:count])
            leaders.append(asked.get(ranked[0][0], first[ranked[0][0]]) if ranked else None)
        after = after.measured("votes", len(ballots)).measured("turn_call", turns)
        return after.measured("turn_vote", leaders)

    def _read_ballot(self, after: State) -> Ballot:
        answer, reason = after.answer, after.reason
        if answer is None and not after.ended:
            answer, reason = read_answer(after, self.read)
        if answer is None:
            return Ballot(after, None, "", reason)
        if after.sample.choices:
            return Ballot(after, answer, after.letters.get(answer.strip(), answer.strip()), "")
        return Ballot(after, answer, " ".join(answer.casefold().split()), "")

    def _find_stop_reason(self, ballots: Sequence[Ballot], calls: Sequence[Call]) -> str:
        """Return the reason to make no further draw, or an empty string to continue."""
        usages = [call.reply.usage for call in calls if call.reply]
        used = sum(usage.tokens_in + usage.tokens_out for usage in usages)
        if self.tokens is not None and used >= self.tokens:
            return f"{used} tokens were used"
        first, second = [*_count_votes(ballots), ("", 0), ("", 0)][:2]
        if self.stop_early and first[1] > second[1] + self.n - len(ballots):
            return "no other answer could win"
        return ""

    def _choose_final_state(self, state: State, ballots: Sequence[Ballot], ended: str) -> State:
        """Return the state of the first draw with the winning answer, or, if no answer wins, that
        of the first draw."""
        ranked = _count_votes(ballots)
        blank = sum(ballot.answer is None for ballot in ballots)
        tallies = [f"{key[:40]} {votes}" for key, votes in ranked]
        tallies += [f"no answer {blank}"] if blank else []
        notes = list(state.notes)
        for ballot in ballots:
            notes += ballot.state.notes
        note = f"vote: {', '.join(tallies)}"
        notes.append(f"{note}; ended after {len(ballots)} draws: {ended}" if ended else note)
        best = [key for key, votes in ranked if votes == ranked[0][1]]
        tied = len(best) > 1 and self.tie == "abstain"
        number = int(state.rng("vote").integers(len(best))) if best and self.tie == "random" else 0
        winner = ballots[0]
        if best and not tied:
            winner = next(ballot for ballot in ballots if ballot.key == best[number])
        voted = winner.state.replace(notes=()).with_notes(*notes)
        if not best:
            reasons = (ballot.reason.partition(":")[0].strip() for ballot in ballots)
            kind, _ = Counter(reason or "unread" for reason in reasons).most_common(1)[0]
            why = f"{kind}: none of {len(ballots)} replies gives an answer"
            return voted.replace(answer=None, reason=why)
        if tied:
            return voted.abstain(f"a tie between {' and '.join(best)}")
        agreed = sum(ballot.key == winner.key for ballot in ballots) / len(ballots)
        voted = voted.measured("vote_share", agreed)
        return voted.replace(answer=winner.answer, reason="", confidence=agreed)


def _count_votes(ballots: Sequence[Ballot]) -> list[tuple[str, int]]:
    """Return the answers with their numbers of votes, the most frequent first, and on a tie in the
    order in which they were given."""
    return Counter(ballot.key for ballot in ballots if ballot.answer is not None).most_common()


@dataclass(frozen=True)
class When(Ranged):
    """Runs `stage`, such as a zoom, a second look or a whole pipeline that asks again, only if the
    confidence so far is unknown or below the threshold `below`.

    Confidence comes from `Ask` with `confidence: choices`, from votes, or from a specialist.
    Measures `looked_again`, 1 if the stage was run.
    """

    stage: Stage
    below: float = 0.8

    ranges = ("below >= 0", "below <= 1")

    @property
    def asks(self) -> bool:
        """Return whether the stage asks the model."""
        return asks_model(self.stage)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state after the stage, or unchanged."""
        again = state.confidence is None or state.confidence < self.below
        return (self.stage(state, model) if again else state).measured("looked_again", int(again))
