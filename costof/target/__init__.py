"""The user's own servers: one file a server program. Somebody's data is there; see each file for what is written."""
