"""Searches over measurements: which one to make next, from the results of those before. Nothing is measured here."""
