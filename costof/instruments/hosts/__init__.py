"""Load machines: hosts of a Ray cluster that measure together as one population, each with its own instrument."""
