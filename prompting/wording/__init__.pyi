from .answer_format import AnswerLine as AnswerLine, JsonAnswer as JsonAnswer
from .instructions import (
    ChainOfThought as ChainOfThought,
    Letters as Letters,
    MarksAsText as MarksAsText,
    MultipleChoice as MultipleChoice,
    System as System,
    Verbatim as Verbatim,
    WholeNumber as WholeNumber,
    YesNo as YesNo,
)
from .template import Template as Template
from .text_file import TextFile as TextFile
from .toolkits import (
    BlinkConsistencyDecoding as BlinkConsistencyDecoding,
    BlinkDecoding as BlinkDecoding,
    DoYouSeeMeDecoding as DoYouSeeMeDecoding,
    LmmsEvalDecoding as LmmsEvalDecoding,
    LmmsEvalPrompt as LmmsEvalPrompt,
    OfficialPrompt as OfficialPrompt,
    Vlm2LongDecoding as Vlm2LongDecoding,
    Vlm2ShortDecoding as Vlm2ShortDecoding,
    VlmevalkitDecoding as VlmevalkitDecoding,
    VlmevalkitPrompt as VlmevalkitPrompt,
)
