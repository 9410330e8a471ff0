"""The records of a run on disk, from which every report can be made again."""
