"""What people read: the only place that converts units."""
