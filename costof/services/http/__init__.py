"""The service for studies of balancers in front of an HTTP server."""
