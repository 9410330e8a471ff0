"""YCSB, the cloud serving benchmark, as its core workload defines it: names of records, options, and output."""

from costof.ycsb.keys import FNV_OFFSET_BASIS_64, FNV_PRIME_64, fnv_hash_64, key_name

__all__ = ["FNV_OFFSET_BASIS_64", "FNV_PRIME_64", "fnv_hash_64", "key_name"]
