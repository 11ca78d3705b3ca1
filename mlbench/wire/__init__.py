"""What travels between processes as JSON."""
