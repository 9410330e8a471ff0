"""The service for studies of the user's own commands, which may measure any servers."""
