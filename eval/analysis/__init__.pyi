from .finding import Finding as Finding, find as find
