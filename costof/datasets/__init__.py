"""The data of standard benchmarks: sysbench's and pgbench's tables, TPC-C's, YCSB's records."""
