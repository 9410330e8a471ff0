"""Commands of the user's own: what their words stand for, how they are run, and how what they print is read."""
