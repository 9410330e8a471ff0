"""Mutual TLS by proxies: passing through two proxies costs far more than the encryption between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import costof

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.alone]
PATHS = "path=direct,pair-mtls,pair,pair-tcp-mtls,pair-tcp"
CPU = ("wire.request_client_proxy_cpu", "wire.request_server_proxy_cpu")


def test_two_proxies_use_far_more_cpu_time_than_the_encryption_between_them(tmp_path: Path) -> None:
    """CPU time is compared, because it depends less on other programs of the machine than latencies do."""
    run = tmp_path / "run"
    options = ("--profile", "quick", "--set", PATHS, "--set", "program=envoy", "--rounds", "6", "--seed", "1")
    done = costof("run", "service-mtls", *options, "--out", str(run), cwd=tmp_path)
    assert done.status in (0, 3), done.err
    result = json.loads((run / "result.json").read_text())
    assert [arm["error"] for arm in result["arms"] if arm["error"]] == []
    pooled, raw = result["sections"]["split"]
    for split in (pooled, raw):
        for metric in CPU:
            way, encryption = mean(split, metric, "first"), mean(split, metric, "second")
            assert way > 3 * abs(encryption) > 0
    # Proxies for raw TCP do a TLS handshake between each other for each connection of the client. Proxies for HTTP
    # (`pooled`) keep their connections to each other open.
    connect = "wire.connect_and_first_request"
    assert mean(raw, connect, "second") > 2 * abs(mean(pooled, connect, "second"))


def mean(split: dict[str, Any], metric: str, step: str) -> float:
    figures = (each for each in split["figures"] if (each["metric"], each["figure"]) == (metric, "mean"))
    return float(next(figures)[step]["value"])
