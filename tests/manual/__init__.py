"""Tests of the documentation: the reference, manual pages, quoted reports, and every command line on a page."""
