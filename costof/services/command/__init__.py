"""Studies of the user's own commands, which measure any servers."""
