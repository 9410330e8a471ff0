"""One server, reached directly (plain or TLS), through tunnels, or through poolers, from near and far clients."""
