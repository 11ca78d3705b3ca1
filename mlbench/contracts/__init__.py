"""The plugin contracts. Nothing here imports the rest of mlbench, or anything heavy."""
