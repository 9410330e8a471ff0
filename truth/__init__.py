"""The truth campaign: how often `costof` is wrong, on real servers whose costs are known."""
