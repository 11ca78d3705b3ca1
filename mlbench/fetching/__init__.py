"""Fetches what full profiles need: described by `sources.toml`, verified, and laid into one data folder."""
