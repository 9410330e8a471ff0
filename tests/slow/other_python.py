"""Another Python than that of a cluster, for tests: a real one where this machine has it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import costof
from tests.slow.hosts_runs import told
from tests.slow.ray_nodes import Cluster


def another_python() -> tuple[str, str] | None:
    """Its path and version."""
    path = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not Path(path).exists():
        return None
    say = ["-c", "import platform; print(platform.python_version())"]
    version = subprocess.run([path, *say], capture_output=True, text=True, check=True).stdout.strip()
    return (path, version) if version != platform.python_version() else None


def by_python(cluster: Cluster, path: str, version: str) -> tuple[int, str]:
    """What the command says that this one runs, with the packages of ours."""
    packages = os.pathsep.join([str(Path(costof.__file__).parents[1]), sysconfig.get_path("purelib")])
    words = [path, "-m", "costof", "doctor", "--hosts", "auto"]
    process = cluster.command(*words, env={"PYTHONPATH": packages}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert "Traceback" not in err, err
    return process.returncode, out + err


def by_other_versions(cluster: Cluster) -> tuple[int, str]:
    """What the command says while the cluster says of itself that it is of another Python."""
    say = """
import json, ray
from ray.experimental import internal_kv as kv
ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
key, space = b"CLUSTER_METADATA", b"cluster"
usual = kv._internal_kv_get(key, namespace=space)
kv._internal_kv_put(key, json.dumps(json.loads(usual) | {"python_version": "3.13.0"}).encode(), namespace=space)
print("changed", flush=True)
input()
kv._internal_kv_put(key, usual, namespace=space)
"""
    other = cluster.command(sys.executable, "-c", say, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == "changed\n"
    try:
        return told(cluster, "doctor", "--hosts", "auto")
    finally:
        other.communicate("\n")
