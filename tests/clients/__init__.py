"""Clients in several languages: each runs the round trip of `facts`, and prints what it read."""
