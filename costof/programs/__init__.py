"""Server programs, one file or folder each: how to start one, ask it, and be a guest on a user's own."""
