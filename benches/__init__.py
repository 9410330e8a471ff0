"""Benchmarks that compare the engine with common clients, on the same server in the same run."""
