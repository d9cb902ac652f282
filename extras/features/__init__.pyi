from .attention import AttentionShare as AttentionShare, VisionAttention as VisionAttention
from .backbones import DINOv2 as DINOv2, EfficientNet as EfficientNet
from .dift import DIFT as DIFT, DIFTHPatches as DIFTHPatches, DIFTSPair as DIFTSPair
from .question_attention import QuestionAttention as QuestionAttention
from .salience import EditSalience as EditSalience
