"""What is sent to a server, and when: prompts, sessions, schedules and traces."""
