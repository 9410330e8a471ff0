"""What the machine's process list shows of costof: the command and its study, nothing that may hold a secret.

Arguments stand in /proc for every user of the machine to read, URLs with passwords among them.
"""

from __future__ import annotations

import re
import sys
from itertools import takewhile

#: Commands that may be given a secret: a URL, a header, a property.
_TAKE_SECRETS = frozenset({"run", "clean", "ab", "ycsb"})
_WORD = re.compile(r"[a-z][a-z0-9-]*")


def title_of(arguments: list[str]) -> str | None:
    """The words before the first option, such as 'costof run mongodb-tls'; None where nothing is to be hidden."""
    words = list(takewhile(_WORD.fullmatch, arguments))
    harmless = words and words[0] not in _TAKE_SECRETS
    if harmless or len(words) == len(arguments):
        return None
    return " ".join(["costof", *words])


def hide_arguments() -> None:
    """Replace this process's command line and environment as /proc shows them. Python's own copies stay.

    Called before anything else is imported: until then the command line can be read.
    """
    title = title_of(sys.argv[1:])
    if title is not None:
        from setproctitle import setproctitle

        setproctitle(title)
