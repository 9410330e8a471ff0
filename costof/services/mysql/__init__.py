"""One MariaDB or MySQL server, reached in plain, by TLS or by tunnels."""
