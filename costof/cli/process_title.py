"""costof's entry in the process list: the command and its study, without arguments that may contain secrets.

Every user of the machine can read the arguments of a process in /proc, including URLs with passwords.
"""

from __future__ import annotations

import re
import sys
from itertools import takewhile

#: Commands whose arguments may contain secrets, for example in URLs, headers or properties.
_WITH_SECRETS = frozenset({"run", "clean", "ab", "ycsb"})
_WORD = re.compile(r"[a-z][a-z0-9-]*")


def process_title(arguments: list[str]) -> str | None:
    """Return a title without arguments: the words before the first option, such as 'costof run mongodb-tls'.

    Return None if nothing must be hidden: the command's arguments never contain secrets, or it has no options.
    """
    words = list(takewhile(_WORD.fullmatch, arguments))
    harmless = words and words[0] not in _WITH_SECRETS
    if harmless or len(words) == len(arguments):
        return None
    return " ".join(["costof", *words])


def hide_arguments() -> None:
    """Overwrite this process's command line and environment in /proc. Python's own copies of them stay.

    This must run before slow imports, because until then other users can read the command line.
    """
    title = process_title(sys.argv[1:])
    if title is not None:
        from setproctitle import setproctitle

        setproctitle(title)
