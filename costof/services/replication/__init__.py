"""The service for studies of MongoDB replica sets of several sizes, whose members replicate from each other."""
