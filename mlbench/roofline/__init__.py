"""The minimum work of graph calls, the measured peak rates of this machine, and a run's share of them."""
