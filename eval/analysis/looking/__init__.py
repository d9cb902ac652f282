"""Whether the picture, the mark or the look made the difference: turns, tools, measurements,
blindness, routing."""
