"""Commands of the user's own: what their words stand for, how they are run, and how what they print is read."""

#: What brings a level into force, undoes it or proves it takes no longer.
STEP_SECONDS = 60.0
