"""Column encryption by a gateway before MariaDB or MySQL."""
