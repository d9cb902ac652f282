from .boxes import RFDETR as RFDETR, Florence2 as Florence2, MaskBoxes as MaskBoxes
from .dire import DIRE as DIRE
from .face_networks import MTCNN as MTCNN, YuNet as YuNet
from .faces import (
    FaceBoxes as FaceBoxes,
    FaceCascade as FaceCascade,
    FaceRecognition as FaceRecognition,
)
from .grounding_dino import GroundingDINO as GroundingDINO
from .ppocr import PPOCR as PPOCR
