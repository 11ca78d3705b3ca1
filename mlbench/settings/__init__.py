"""Settings in layers, and their descriptions."""
