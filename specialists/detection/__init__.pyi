from .dire import DIRE as DIRE
from .face_networks import MTCNN as MTCNN, YuNet as YuNet
from .faces import (
    FaceBoxes as FaceBoxes,
    FaceCascade as FaceCascade,
    FaceRecognition as FaceRecognition,
)
from .florence2 import Florence2 as Florence2
from .grounding_dino import GroundingDINO as GroundingDINO
from .network_boxes import MaskBoxes as MaskBoxes
from .ppocr import PPOCR as PPOCR
from .rfdetr import RFDETR as RFDETR
