"""The version of mlbench, and the distribution that it comes in."""

DISTRIBUTION = "mlbench-inference"
__version__ = "0.1.0"
