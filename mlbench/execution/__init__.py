"""From compiled graphs to an engine, and from a run to a process of its own."""
