"""The machine's facts, as a record keeps them."""
