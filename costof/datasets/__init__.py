"""Test data as standard benchmarks define it: the tables of sysbench, pgbench and TPC-C, and the records of YCSB."""
