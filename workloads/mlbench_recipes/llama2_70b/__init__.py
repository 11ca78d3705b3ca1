"""The mini profile of Llama 2."""
