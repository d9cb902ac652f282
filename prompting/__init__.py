"""What is drawn, cropped, said and asked: the stages between a sample and a model's reply."""

from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask
from looktwice.prompting.wording import ChainOfThought, MarksAsText, MultipleChoice, Verbatim

__all__ = ["Ask", "ChainOfThought", "Circles", "MarksAsText", "MultipleChoice", "Verbatim"]
