"""Server programs, one file or folder each: how to start one in a lab, and how to use a user's own server."""
