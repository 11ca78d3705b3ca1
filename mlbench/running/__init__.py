"""A command's runs, while they are made."""
