"""Studies, and the plan that one becomes."""
