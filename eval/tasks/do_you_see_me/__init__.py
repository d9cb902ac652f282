"""Do You See Me (2025): its files, its joint questions, and its own metrics."""
