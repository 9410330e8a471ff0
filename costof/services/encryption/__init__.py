"""Column encryption by a gateway in front of MariaDB or MySQL."""
