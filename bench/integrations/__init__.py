"""Unmodified evaluation programs, each in its own environment, ask `looktwice serve` the same
questions, and each measures the gain from a zoom."""
