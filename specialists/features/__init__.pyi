from .attention import AttentionShare as AttentionShare, VisionAttention as VisionAttention
from .dift import DIFT as DIFT, DIFTHPatches as DIFTHPatches, DIFTSPair as DIFTSPair
from .dino import DINOv2 as DINOv2
from .efficientnet import EfficientNet as EfficientNet
from .question_attention import QuestionAttention as QuestionAttention
from .similarity import (
    DenseSimilarity as DenseSimilarity,
    GlobalSimilarity as GlobalSimilarity,
    GramSimilarity as GramSimilarity,
)
