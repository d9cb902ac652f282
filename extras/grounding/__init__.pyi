from .coco_file import CocoFile as CocoFile
from .drawn_scenes import DrawnScenes as DrawnScenes
from .reader import PlacesInReply as PlacesInReply
from .scorer import PlacesScorer as PlacesScorer
