"""Run records, run folders, and the environment of runs."""
