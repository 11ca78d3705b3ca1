"""Messages between processes, as JSON."""
