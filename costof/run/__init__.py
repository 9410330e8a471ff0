"""A run: order of slices, instruments, evidence, end."""
