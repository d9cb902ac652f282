from .instructions import (
    AnswerLine as AnswerLine,
    ChainOfThought as ChainOfThought,
    JsonAnswer as JsonAnswer,
    Letters as Letters,
    MarksAsText as MarksAsText,
    MultipleChoice as MultipleChoice,
    System as System,
    TextFile as TextFile,
    Verbatim as Verbatim,
    WholeNumber as WholeNumber,
    YesNo as YesNo,
)
from .read_choices import ReadChoices as ReadChoices
from .template import Template as Template
