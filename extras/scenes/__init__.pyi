from .generated import GeneratedDoYouSeeMe as GeneratedDoYouSeeMe
from .letters_and_shapes import LettersAndShapes as LettersAndShapes
from .puzzles import Puzzles as Puzzles
from .rendered_scenes import RenderedScenes as RenderedScenes
from .toy_models import NearSighted as NearSighted, NeverLooks as NeverLooks
