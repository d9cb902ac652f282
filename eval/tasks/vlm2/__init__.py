"""VLM2-Bench (2025): its rows, videos and metrics."""
