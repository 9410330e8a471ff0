"""Commands of the user's own, on whatever these are run against."""
