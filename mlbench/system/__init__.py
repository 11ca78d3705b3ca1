"""What is not ours, read within limits: documents, folders, distributions, the processor."""
