"""The service for studies of load balancers in front of an HTTP server."""
