"""The requests for studies of firewalls: harmless requests of an API or a form, and attacks to test a firewall.

Harmless requests must not match any rule up to paranoia level 2. Otherwise the firewall would log them, and the time
for that would count as a cost of the firewall.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Literal
from urllib.parse import quote_plus, urlencode

from costof.model import Model

HOST = "shop.example"
HEADERS = {"Accept": "application/json, text/html", "Accept-Language": "en"}
CONTENT_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}
GET_PATH, POST_PATH = "/orders?page=2&customer=3170", "/orders"
#: Words for harmless texts. None of them has a meaning in SQL, in a shell or in HTML.
WORDS = """
amber birch copper harbour linen meadow orchard pebble quartz river saffron timber velvet walnut yellow zephyr
autumn basket candle dahlia ember feather garden hazel island jasmine kettle lantern maple nutmeg olive pepper
"""
NOTE_WORDS = 36
#: SQL injection that the core rule set recognizes from paranoia level 1 on.
ATTACK = "1' OR '1'='1' UNION SELECT password FROM users -- "
#: HTML that the core rule set recognizes as an attack only from paranoia level 2 on.
STRICT_ATTACK = "<b>bold</b>"


class Body(Model):
    """The body of a request, `bytes` long: orders in a shop, either as JSON (to an API) or as a form from a browser."""

    content: Literal["json", "form"]
    bytes: int


@dataclass(frozen=True)
class Request:
    """An HTTP request: a POST if it has a `body`, otherwise a GET."""

    path: str
    headers: dict[str, str]
    body: str | None = None

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    def with_parameter(self, name: str, value: str) -> Request:
        """Return a copy with one more parameter in its query."""
        separator = "&" if "?" in self.path else "?"
        return Request(f"{self.path}{separator}{name}={quote_plus(value)}", self.headers, self.body)


def request(body: Body | None, ending: str = "") -> Request:
    """Return a harmless request with this body (None: a GET). `ending`, perhaps an attack, ends the last field."""
    if body is None:
        return Request(GET_PATH, HEADERS)
    headers = HEADERS | {"Content-Type": CONTENT_TYPES[body.content]}
    return Request(POST_PATH, headers, _filled(ENCODERS[body.content], body.bytes, ending))


def _filled(encode: Callable[[list[dict[str, str]], str], str], size: int, ending: str) -> str:
    """Return a body of exactly `size` bytes: as many orders as fit, with letters that fill up the last field."""
    # An order has more than 200 bytes, so not all of these orders fit.
    orders = list(islice(_orders(), size // 200 + 1))
    too_many = bisect_right(range(len(orders) + 1), size, key=lambda number: len(encode(orders[:number], ending)))
    orders = orders[: max(0, too_many - 1)]
    missing = max(0, size - len(encode(orders, ending)))
    letters = "".join(WORDS.split())
    letters = (letters * (missing // len(letters) + 1))[:missing]
    return encode(orders, letters + ending)


def _orders() -> Iterator[dict[str, str]]:
    known = WORDS.split()
    words = (known[(number * 7 + number // len(known)) % len(known)] for number in count())
    for number in count(1001):
        note = " ".join(next(words) for _ in range(NOTE_WORDS))
        yield {
            "order": str(number),
            "customer": f"{next(words).title()} {next(words).title()}",
            "article": f"{next(words)} {next(words)}",
            "note": note.capitalize(),
        }


def _as_json(orders: list[dict[str, str]], remark: str) -> str:
    return json.dumps({"orders": orders, "remark": remark}, separators=(",", ":"))


def _as_form(orders: list[dict[str, str]], remark: str) -> str:
    fields = [(f"{name}{number}", value) for number, order in enumerate(orders) for name, value in order.items()]
    return urlencode([*fields, ("remark", remark)])


ENCODERS: dict[str, Callable[[list[dict[str, str]], str], str]] = {"json": _as_json, "form": _as_form}
