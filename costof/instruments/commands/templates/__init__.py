"""Templates of study files, which `costof new` copies: one for each program."""
