"""Requests of the firewall study: bodies of an exact size that their servers can parse, and attacks at their end."""

from __future__ import annotations

import json
from typing import Literal
from urllib.parse import parse_qsl

import pytest

from costof.services.firewall.requests import ATTACK, Body, request

#: ModSecurity refuses requests with more fields (`SecArgumentsLimit`).
MOST_FIELDS = 1_000


@pytest.mark.parametrize("size", [1_024, 65_536])
@pytest.mark.parametrize("content", ["json", "form"])
def test_request_body_has_the_exact_size_and_ends_with_the_attack(content: Literal["json", "form"], size: int) -> None:
    for ending in ("", ATTACK):
        sent = request(Body(content=content, bytes=size), ending)
        assert sent.method == "POST"
        assert sent.body is not None
        assert len(sent.body.encode()) == size
        if content == "json":
            fields = json.loads(sent.body)
            number = 1 + sum(len(order) for order in fields["orders"])
            remark = fields["remark"]
        else:
            pairs = parse_qsl(sent.body, strict_parsing=True, keep_blank_values=True)
            number, remark = len(pairs), dict(pairs)["remark"]
        assert remark.endswith(ending)
        assert number < MOST_FIELDS
        assert number > size / 200, "many fields, as in a real request"


def test_request_without_a_body_is_a_get_request_and_accepts_url_parameters() -> None:
    sent = request(None).with_parameter("search", ATTACK)
    assert (sent.method, sent.body) == ("GET", None)
    assert dict(parse_qsl(sent.path.partition("?")[2]))["search"] == ATTACK
