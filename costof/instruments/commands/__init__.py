"""Measurement of the user's own commands: filling in their placeholders, running them, and reading their output."""
