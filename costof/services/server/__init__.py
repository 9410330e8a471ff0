"""The service for studies of one server, which clients reach directly (plain or TLS) or through tunnels or poolers."""
