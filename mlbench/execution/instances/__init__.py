"""An engine replicated over processes: each has its part of the cores, or a GPU, and all take from one queue."""
