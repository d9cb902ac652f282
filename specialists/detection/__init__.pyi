from .dire import DIRE as DIRE
from .faces import FaceBoxes as FaceBoxes, FaceCascade as FaceCascade, FaceRecognition as FaceRecognition
from .grounding_dino import GroundingDINO as GroundingDINO
from .yunet import YuNet as YuNet
