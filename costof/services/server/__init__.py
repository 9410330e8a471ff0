"""One server program, reached in several ways: in plain, by TLS, by tunnels; from near and far."""
