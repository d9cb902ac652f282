"""Self-consistency: the same question asked several times, and a majority vote over the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from looktwice.pipelines.model import Model
from looktwice.pipelines.pipeline import RecordingModel, calls_made
from looktwice.pipelines.state import Call, Stage, State, Step
from looktwice.prompting.ranges import check_ranges
from looktwice.prompting.turns.ask import Ask, read_answer


@dataclass(frozen=True)
class Ballot:
    """One draw: its final state, its answer, and the key under which the answer is counted."""

    state: State
    answer: str | None
    key: str
    reason: str


@dataclass(frozen=True)
class Vote:
    """Runs a stage `n` times with draws of its own, reads each reply, and answers with the
    majority.

    Self-consistency (Wang et al. 2023; BLINK, Appendix C.3: five draws at temperature 1, which
    `stage: {options: {temperature: 1}}` asks for). `stage` may be any that asks, also one of
    several turns, or a whole pipeline in which `prompting.controls.PermuteChoices` gives each draw
    another order of the choices: votes count for the task's own letters. `read` finds the answers;
    best by reference, `read: ${read}`. Draw k of the run is drawn as k * n, k * n + 1 ..., so no
    two draws are one call; the first n draws of an arm without votes are the same calls as draw 0.

    On a tie, `tie` "first" takes the answer that was given first, "random" one at random, and
    "abstain" none. The confidence is the winner's share of all draws, unreadable ones included. If
    no reply can be read there is no answer, with the most frequent reason. `stop_early` ends the
    draws once no other answer can win. With `tokens` they end once all calls, those of other models
    included, have used so many input and output tokens, and `n` is the maximum. The result is the
    state of the first draw with the winning answer. Measured are the `vote_share` of the winner and
    the `votes`; turns are the majorities after each draw.
    """

    read: Stage
    stage: Stage = field(default_factory=Ask)
    n: int = 5
    tie: Literal["first", "abstain", "random"] = "first"
    stop_early: bool = False
    tokens: int | None = None

    def __post_init__(self) -> None:
        check_ranges(self, "n, tokens >= 1")

    def __call__(self, state: State, model: Model) -> State:
        """The state with the answer of the majority. Raises what the stage raises: a draw that
        fails fails them all."""
        recorder = (
            model if isinstance(model, RecordingModel) else RecordingModel(model, state.sample.id)
        )
        calls_before, trace, ended = len(recorder.calls), state.trace, ""
        ballots: list[Ballot] = []
        turns: list[int] = []
        for number in range(self.n):
            ended = self._ended(ballots, recorder.calls[calls_before:])
            if ended:
                break
            after = self.stage(
                state.replace(draw=state.draw * self.n + number, trace=trace), recorder
            )
            trace = after.trace
            ballots.append(self._ballot(after))
            turns.append(calls_made(after, recorder) - 1)
        after = self._counted(state, ballots, trace, ended).measured("votes", len(ballots))
        return after.measured("turn_call", turns).measured(
            "turn_vote", _votes_so_far(ballots, after)
        )

    def _ballot(self, after: State) -> Ballot:
        answer, reason = (None, after.reason) if after.ended else (after.answer, after.reason)
        if answer is None and not after.ended:
            answer, reason = read_answer(after, self.read)
        if answer is None:
            return Ballot(after, None, "", reason)
        given = answer.strip()
        key = (
            after.letters.get(given, given)
            if after.sample.choices
            else " ".join(given.casefold().split())
        )
        return Ballot(after, answer, key, "")

    def _ended(self, ballots: Sequence[Ballot], calls: Sequence[Call]) -> str:
        """Why no further draw is made; empty if one is."""
        used = sum(
            call.reply.usage.tokens_in + call.reply.usage.tokens_out for call in calls if call.reply
        )
        if self.tokens is not None and used >= self.tokens:
            return f"{used} tokens were used"
        first, second = [*_count_votes(ballots), ("", 0), ("", 0)][:2]
        if self.stop_early and first[1] > second[1] + self.n - len(ballots):
            return "it was settled"
        return ""

    def _counted(
        self, state: State, ballots: Sequence[Ballot], trace: tuple[Step, ...], ended: str
    ) -> State:
        ranked = _count_votes(ballots)
        tallies = [f"{key[:40]} {votes}" for key, votes in ranked]
        tallies += (
            [f"no answer {blank}"]
            if (blank := sum(ballot.answer is None for ballot in ballots))
            else []
        )
        note = f"vote: {', '.join(tallies)}" + (
            f"; ended after {len(ballots)} draws: {ended}" if ended else ""
        )
        notes = [*(note for ballot in ballots for note in ballot.state.notes), note]
        best = [key for key, votes in ranked if votes == ranked[0][1]]
        if not best:
            reasons = (ballot.reason.partition(":")[0].strip() for ballot in ballots)
            kind, _ = Counter(reason or "unread" for reason in reasons).most_common(1)[0]
            why = f"{kind}: not one of {len(ballots)} replies gives an answer"
            return _state_of_draw(state, ballots[0], trace, notes).replace(answer=None, reason=why)
        if len(best) > 1 and self.tie == "abstain":
            return _state_of_draw(state, ballots[0], trace, notes).abstain(
                f"a tie between {' and '.join(best)}"
            )
        number = int(state.rng("vote").integers(len(best))) if self.tie == "random" else 0
        winner = next(ballot for ballot in ballots if ballot.key == best[number])
        agreed = sum(ballot.key == winner.key for ballot in ballots) / len(ballots)
        voted = _state_of_draw(state, winner, trace, notes).measured("vote_share", agreed)
        return voted.replace(answer=winner.answer, reason="", confidence=agreed)


def _count_votes(ballots: Sequence[Ballot]) -> list[tuple[str, int]]:
    """Answers and their votes, the most frequent first; on a tie the one that was given first."""
    return Counter(ballot.key for ballot in ballots if ballot.answer is not None).most_common()


def _votes_so_far(ballots: Sequence[Ballot], after: State) -> list[str | None]:
    """After each draw, the answer that had most votes until then, in the letters in which `after`
    was asked."""
    asked = {own: shown for shown, own in after.letters.items()}
    first = {ballot.key: ballot.answer for ballot in reversed(ballots)}
    leaders = [next(iter(_count_votes(ballots[: n + 1])), ("", 0))[0] for n in range(len(ballots))]
    return [asked.get(key, first[key]) if key else None for key in leaders]


def _state_of_draw(
    state: State, ballot: Ballot, trace: tuple[Step, ...], notes: Sequence[str]
) -> State:
    """The state of one draw as that of the whole vote."""
    return ballot.state.replace(draw=state.draw, trace=trace, notes=state.notes).with_notes(*notes)
