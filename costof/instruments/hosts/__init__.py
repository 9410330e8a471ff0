"""Load machines: hosts of a Ray cluster that measure at the same time, each with its own instrument."""
