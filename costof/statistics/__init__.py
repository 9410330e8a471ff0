"""Effects, intervals and verdicts; latency histograms; break-even points."""
