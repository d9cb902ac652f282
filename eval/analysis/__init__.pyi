from .finding import Finding as Finding, TaskFinding as TaskFinding, find as find
from .one_change import FoundRow as FoundRow
