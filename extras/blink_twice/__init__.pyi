from .task import BlinkTwice as BlinkTwice, TwiceScorer as TwiceScorer
