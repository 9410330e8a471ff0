"""The truth campaign: it measures how often `costof` is wrong, on real servers to which a known cost is added."""
