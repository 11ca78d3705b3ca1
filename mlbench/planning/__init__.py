"""What is to be measured, all of it checked before the first run."""
