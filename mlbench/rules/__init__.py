"""The official v4.1 rules as data, and the verdict that applies them to a run."""
