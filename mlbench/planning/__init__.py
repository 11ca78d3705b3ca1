"""Plans the runs, with all checks before the first run."""
