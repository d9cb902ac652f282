from .base import Facts as Facts, Subset as Subset, Task as Task, TaskError as TaskError
from .blink import Blink as Blink, BlinkScorer as BlinkScorer
from .blink_twice import BlinkTwice as BlinkTwice, TwiceScorer as TwiceScorer
from .do_you_see_me.subtasks import JointScorer as JointScorer, SweepScorer as SweepScorer
from .do_you_see_me.task import DoYouSeeMe as DoYouSeeMe, JointQuestions as JointQuestions
from .marked_scenes.mark_questions import MarkQuestions as MarkQuestions
from .marked_scenes.task import MarkedScenes as MarkedScenes, SceneScorer as SceneScorer
from .own_questions import Folder as Folder
from .own_tables import Columns as Columns, Tsv as Tsv
from .photos.task import Photos as Photos
from .vlm2.metrics import (
    CountScorer as CountScorer,
    GroupScorer as GroupScorer,
    PairScorer as PairScorer,
    VideoScorer as VideoScorer,
)
from .vlm2.task import Vlm2Bench as Vlm2Bench
