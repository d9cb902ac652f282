from .results import Results as Results
