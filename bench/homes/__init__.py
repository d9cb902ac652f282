"""Evaluation programs, each in its own environment, ask `looktwice serve` the same questions: the
gain from a zoom, measured by each program, none of them changed."""
