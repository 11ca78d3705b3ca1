"""What a plugin promises. Nothing here imports the rest of mlbench, nor anything heavy."""
