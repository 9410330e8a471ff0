"""One server program, reached in plain, by TLS and by tunnels, from near and far."""
