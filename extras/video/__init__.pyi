from .frames import Video as Video
from .native import SendVideo as SendVideo
