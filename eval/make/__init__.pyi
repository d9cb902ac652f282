from .correspondence import Correspondence as Correspondence
from .depth import RelativeDepth as RelativeDepth
from .jigsaw import Jigsaw as Jigsaw
from .localization import Localization as Localization
from .sequences import Sequences as Sequences
