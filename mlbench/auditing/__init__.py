"""Compliance tests of stored runs: which are owed, their runs, their verdicts."""
