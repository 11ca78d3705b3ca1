"""What graph calls take at least, what this machine can do at most, measured once, and how near to it a run came."""
