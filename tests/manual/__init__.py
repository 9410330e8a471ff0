"""The documentation beside its pages: the reference, manual pages, reports, and every command that a page tells."""
