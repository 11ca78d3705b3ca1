"""The process that talks to servers: requests out, streams in, and what their answers are worth."""
