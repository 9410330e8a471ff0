"""The data of standard benchmarks: sysbench's table, TPC-C's, YCSB's records."""
