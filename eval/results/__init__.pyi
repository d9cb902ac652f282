from .flips import Flip as Flip, Flips as Flips
from .results import Results as Results
