"""Whether two sets of runs differ beyond noise. This package reads records; it runs nothing and prints nothing."""
