"""The service for studies of one server, which clients reach directly or through tunnels, poolers or proxies."""
