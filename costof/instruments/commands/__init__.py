"""The user's own commands as workloads: filling in placeholders, running the commands, and reading their output."""
