"""costof: what will this protection cost my service?"""

__version__ = "0.1.0"
