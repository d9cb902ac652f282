"""A measure of how easily an edit can be inferred from a model's descriptions of both images."""

from __future__ import annotations

from dataclasses import dataclass, field

from looktwice.extras.engines.local_vlm import LocalVLM
from looktwice.extras.networks.opening import Device
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.model import CallOptions, Message, Model
from looktwice.pipelines.state import State

COMPARISON_PROMPT = """Here is what two images show.
Image 1: {}
Image 2: {}
From image 1 to image 2, what changed is in short:"""


@dataclass(frozen=True)
class EditSalience:
    """Measures how easily an edit can be inferred from a model's descriptions of two images.

    VLM2-Bench (section 2.1) excludes edits that are too easy to see by this score. The question is
    the edit in words; the views are the image before and after it. The model answers `describe`
    about each; `salience` is the mean log-probability that `scorer` (a network for LocalVLM, of
    this `revision`, on this `device`) assigns to the tokens of the edit after both descriptions,
    and `kept` is "yes" if it is below `threshold`, the paper's -2. The paper's scorer, Llama 3 8B,
    continues plain text: here the frame, in our words, is a user turn, and the edit the reply.
    Equation 1 is followed; the pseudo-code of figure 7 omits the first token from the sum but
    includes it in the count.
    """

    scorer: str
    revision: str | None = None
    device: Device = field(default="auto", metadata=NOT_IDENTITY)
    describe: str = "Describe this image in detail."
    threshold: float = -2.0

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with both measurements. Raises ModelError, and ValueError unless there
        are two views."""
        edit = state.sample.bare_question
        if len(state.views) != 2:
            raise ValueError(
                f"sample {state.sample.id} has {len(state.views)} views; show the image before the"
                " edit and the one after it"
            )
        asked = [[Message("user", (view, self.describe))] for view in state.views]
        frame = COMPARISON_PROMPT.format(*(model(messages).text for messages in asked))
        options = CallOptions(choices=(edit,))
        scorer = LocalVLM(self.scorer, self.revision, device=self.device)
        reply = scorer([Message("user", (frame,))], options=options)
        tokens = scorer.network().tokenizer(edit, add_special_tokens=False)["input_ids"]
        salience = reply.logprobs[0][edit] / len(tokens)
        kept = "yes" if salience < self.threshold else "no"
        return state.measured("salience", salience).measured("kept", kept)
