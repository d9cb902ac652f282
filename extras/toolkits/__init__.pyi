from .readers import (
    BlinkOfficial as BlinkOfficial,
    LmmsEval as LmmsEval,
    Vlm2 as Vlm2,
    Vlmevalkit as Vlmevalkit,
)
from .scorer import BenchmarkScorer as BenchmarkScorer
from .styles import (
    BlinkPaperStyle as BlinkPaperStyle,
    BlinkReleasedStyle as BlinkReleasedStyle,
    SomStyle as SomStyle,
    Vlm2Style as Vlm2Style,
    VPBenchPrompt as VPBenchPrompt,
    VPBenchStyle as VPBenchStyle,
)
from .wording import (
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
