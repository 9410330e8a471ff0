"""Balancers before an HTTP server."""
