"""The service for studies of web application firewalls in front of an HTTP server."""
