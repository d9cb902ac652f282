from .dire import DIRE as DIRE
from .faces import FaceBoxes as FaceBoxes, FaceCascade as FaceCascade, FaceRecognition as FaceRecognition
from .florence2 import Florence2 as Florence2
from .grounding_dino import GroundingDINO as GroundingDINO
from .mask_boxes import MaskBoxes as MaskBoxes
from .mtcnn import MTCNN as MTCNN
from .ppocr import PPOCR as PPOCR
from .rfdetr import RFDETR as RFDETR
from .yunet import YuNet as YuNet
