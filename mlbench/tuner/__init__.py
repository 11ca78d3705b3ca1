"""``mlbench tune``: carries out a search with ordinary runs, and keeps what it finds for later ones."""
