"""Load machines: hosts of a Ray cluster that ask a user's servers as one population, each by an engine of its own."""
