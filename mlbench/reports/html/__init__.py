"""A report as one HTML file that needs no network, no script and no other file."""
