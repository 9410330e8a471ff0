"""Server programs, one file or folder for each: how a lab starts the program, and how a run uses a user's own server."""
