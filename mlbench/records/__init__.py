"""What a run leaves behind: its record, its folder, and what the machine was like."""
