"""Messages to and from the processes that measure (`plan.py` and `answers.py`): one JSON object on each line."""
