from .analyses import Analysis as Analysis
from .finding import Finding as Finding, find as find
