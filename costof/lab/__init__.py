"""Real servers that a run starts for itself: one file a server program."""
