"""Templates of studies of commands, one file a program: what `costof new` writes."""
