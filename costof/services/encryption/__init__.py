"""The service for studies of column encryption, which a gateway in front of MariaDB or MySQL performs."""
