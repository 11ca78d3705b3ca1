"""``mlbench bench-endpoint``: loads one after another, their numbers, and the search for a rate."""
