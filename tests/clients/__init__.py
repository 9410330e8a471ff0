"""Applications of many houses: each does the round trip of `facts`, and tells what it saw in lines."""
