"""Messages between this process and those that measure: `plan.py` there, `answers.py` back, one JSON object a line."""
