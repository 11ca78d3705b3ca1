"""The mini profile of GPT-J."""
