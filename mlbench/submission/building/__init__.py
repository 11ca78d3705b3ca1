"""Submission trees made from stored runs."""
