"""The studies: one TOML file a question."""
