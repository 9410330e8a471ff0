"""A MongoDB replica set or single server."""
