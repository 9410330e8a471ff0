"""Messages between costof and the processes that measure: one JSON object a line.

`plan.py` has the messages to these processes, and `answers.py` their answers.
"""
