"""Drawn scenes of coloured shapes and lettered tiles, and questions about the marked ones."""
