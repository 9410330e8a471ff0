"""Load machines: hosts of a Ray cluster that measure as one population, each by an instrument of its own."""
