"""Engines over compiled graphs, and separate processes for runs."""
