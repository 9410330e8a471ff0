"""MongoDB replica sets of several sizes and shapes."""
