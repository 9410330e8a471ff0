"""The data of standard benchmarks: the tables of sysbench, pgbench and TPC-C, and YCSB's records."""
