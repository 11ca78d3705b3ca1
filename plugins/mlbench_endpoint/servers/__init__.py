"""The server beside a run: started, watched, and its own metrics."""
