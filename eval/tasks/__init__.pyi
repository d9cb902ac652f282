from .base import Facts as Facts, Subset as Subset, Task as Task, TaskError as TaskError
from .blink import Blink as Blink, BlinkScorer as BlinkScorer
from .marked_scenes.task import MarkedScenes as MarkedScenes, SceneScorer as SceneScorer
from .own_questions import Folder as Folder
from .own_tables import Columns as Columns, Tsv as Tsv
from .photos.task import Photos as Photos
