"""Reports for people: the only package that converts units."""
