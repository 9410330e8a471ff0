"""Database clients in several languages. Each runs the statements described in `facts`, and prints what it read."""
