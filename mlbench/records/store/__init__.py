"""Records in folders: written whole, read, found and selected."""
