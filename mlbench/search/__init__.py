"""Searches over measurements: which one to make next, from what those before came to. Nothing is measured here."""
