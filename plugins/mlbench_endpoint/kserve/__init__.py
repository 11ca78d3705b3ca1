"""KServe's open inference protocol, for workloads that are not text."""
