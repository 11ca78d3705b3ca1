"""Compliance tests of stored runs: which are required, their runs, their verdicts."""
