"""Readers of foreign things, within limits: documents, folders, distributions, the processor."""
