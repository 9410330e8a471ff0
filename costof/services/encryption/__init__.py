"""The service for studies of column encryption by a gateway in front of MariaDB or MySQL."""
