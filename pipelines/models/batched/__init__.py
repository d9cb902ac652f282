"""A model that is asked in batches: the queue of a run, and the endpoints that providers have for
it."""
