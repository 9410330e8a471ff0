"""The service for studies of MongoDB replica sets, for example of their size or of the paths of replication."""
