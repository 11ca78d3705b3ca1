"""The mini profile of Mixtral."""
