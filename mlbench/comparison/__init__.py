"""Are two sets of runs different beyond noise? This room reads records; it runs nothing and prints nothing."""
