"""Results of a run: the raw records on disk, and the figures computed from them for the report."""
