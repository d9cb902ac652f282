"""Tasks, runs, records, scores and reports."""
