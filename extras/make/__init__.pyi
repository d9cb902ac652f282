from .files import Jigsaw as Jigsaw
from .localization import Localization as Localization
from .points import Correspondence as Correspondence
from .relative_depth import RelativeDepth as RelativeDepth
from .sequences import Sequences as Sequences
