"""Compares the scores of published sets with those of their authors' code, on constructed
replies."""
