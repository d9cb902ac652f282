"""Analyses of whether the picture, the mark or the look made the difference: turns, tools,
measurements, routing."""
