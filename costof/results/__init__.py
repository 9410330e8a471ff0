"""Results: the raw records of a run on disk, and what is concluded from them before any report is written."""
