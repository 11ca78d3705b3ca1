"""The mini profile of BERT."""
