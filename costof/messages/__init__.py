"""Messages to the processes that measure (`plan.py`) and their answers (`answers.py`): one JSON object a line."""
