"""Studies, their options, and the plan of a run."""
