"""The truth campaign: error rates of `costof` on real servers with known costs."""
