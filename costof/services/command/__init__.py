"""The service for studies that measure the user's own commands."""
