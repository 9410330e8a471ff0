"""One server program, reached in plain, by TLS, by tunnels and through pools, from near and far."""
