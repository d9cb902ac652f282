"""Made scenes of coloured shapes and lettered tiles, and questions about those that are marked."""
