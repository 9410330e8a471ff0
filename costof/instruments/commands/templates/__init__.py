"""Study templates that `costof new` copies: one file for each program."""
