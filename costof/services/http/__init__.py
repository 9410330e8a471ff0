"""Balancers in front of an HTTP server."""
