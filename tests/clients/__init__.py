"""Database clients in several languages. Each runs the round trip described in `facts` and prints what it read."""
