"""Studies (questions that costof can measure, one TOML file each), their options, and the plan of a run."""
