"""Processes of their own: started, watched and ended."""
