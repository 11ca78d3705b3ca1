"""What this machine can do at most, measured once, and how near to it a run came."""
