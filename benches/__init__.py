"""Benchmarks that compare costof's engine with common clients, on the same server in the same run."""
