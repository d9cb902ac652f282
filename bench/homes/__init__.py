"""Programs that evaluate models, each in an environment of its own, ask `looktwice serve` the same
questions: what a zoom is worth in each, with none of them changed."""
