"""MariaDB, and MySQL where a user's own server is one."""
