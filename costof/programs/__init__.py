"""Server programs, one file or folder for each: how a lab starts one, and how a run uses a user's own server."""
