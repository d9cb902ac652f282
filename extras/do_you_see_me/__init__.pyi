from .subtasks import JointScorer as JointScorer, SweepScorer as SweepScorer
from .task import DoYouSeeMe as DoYouSeeMe, JointQuestions as JointQuestions
