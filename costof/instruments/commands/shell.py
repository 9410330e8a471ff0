"""Functions that split command lines into words without a shell, and find syntax that only a shell understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from glob import escape, iglob
from itertools import pairwise
from pathlib import Path
from typing import Literal

#: The quotation of a character: a backslash, single or double quotation marks, or none ("").
Quote = Literal["", "'", '"', "\\"]
#: A word of a command line as pairs (character, its quotation), without the quotation marks themselves.
Word = list[tuple[str, Quote]]

_BLANKS = " \t\r\n"
_OPERATOR = re.compile(r"[|&;<>]+")
#: A shell expands a '$' only if one of these characters follows. The set is smaller inside double quotation marks
#: (`_EXPANDED_IN_QUOTES`) than outside of quotation marks (`_EXPANDED`).
_EXPANDED_IN_QUOTES = re.compile(r"[A-Za-z_{(]")
_EXPANDED = re.compile(r"[A-Za-z0-9_{(@*#?$!-]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
#: Commands that are built into a shell and usually do not exist as programs.
_BUILT_IN = frozenset(
    {".", ":", "alias", "cd", "eval", "exec", "exit", "export", "hash", "set", "source", "times", "trap", "type"}
) | {"ulimit", "umask", "unset", "wait"}
_SHELLS = frozenset({"sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"})
_COMMAND_OPTION = re.compile(r"-[A-Za-z]*c")
#: The substitute for quoted characters in a search for shell syntax, since quoted characters have no special meaning.
_OPAQUE = "\0"
_END: tuple[str, Quote] = ("", "")


def split(line: str) -> list[str]:
    """Return the words of a command line, like `shlex.split`. Raises `ValueError` with a message for the user."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ValueError(_WRONG.get(str(error), str(error))) from None
    if not words:
        raise ValueError("it has no words")
    return words


_WRONG = {
    "No closing quotation": "it has no closing quotation mark; add it, or write \\' or \\\" for the mark itself",
    "No escaped character": "nothing follows the backslash at its end",
}


def shell_sign(line: str, directory: Path | None = None) -> str | None:
    """Return the first shell syntax in a line, such as '<' or 'NAME='; None if the line needs no shell.

    These are not shell syntax: quoted characters, '?' and '&' in a URL, and a '?' that matches no file in `directory`.
    Call the function only with a line that `split` accepts.
    """
    words = list(_words(line))
    if assigned := _ASSIGNMENT.match(_unquoted(words[0])):
        return assigned[0]
    for at, word in enumerate(words):
        sign = _sign(word, directory, expanded_later=_is_script(words, at))
        if sign is not None:
            return sign
    return None


def needs_shell(line: str) -> bool:
    """Return whether a line contains syntax that needs a shell; False if its quotation marks are unbalanced."""
    try:
        first, *_ = split(line)
    except ValueError:
        return False
    return shell_sign(line) is not None or first in _BUILT_IN


def _sign(word: Word, directory: Path | None, expanded_later: bool) -> str | None:
    text = _unquoted(word)
    if text[:1] == "#" or text == "~" or text.startswith("~/"):
        return text[0]
    for found in _OPERATOR.finditer(text):
        # '&' and ';' within a URL do not separate commands.
        in_url = "://" in text[: found.start()] and found.end() < len(text) and set(found[0]) <= set("&;")
        if not in_url:
            return found[0]
    if expansion := _expansion(word, expanded_later):
        return expansion
    return None if "://" in text else _pattern(word, directory)


def _expansion(word: Word, expanded_later: bool) -> str | None:
    """Return '$' or '`' if a shell would expand a variable or a command in the word; else None.

    With `expanded_later`, the word is the script of `sh -c "…"`. Characters in double quotation marks are then ignored,
    because the called shell expands them.
    """
    for (sign, quote), (after, quote_after) in pairwise([*word, _END]):
        if quote not in ("", '"') or (quote == '"' and expanded_later):
            continue
        expanded = _EXPANDED_IN_QUOTES if quote else _EXPANDED
        if sign == "`" or (sign == "$" and quote == quote_after and expanded.match(after)):
            return sign
    return None


def _pattern(word: Word, directory: Path | None) -> str | None:
    """Return '*', '?' or '[' if a shell would replace the word by the names of matching files; else None.

    Any '*' counts. '?' and '[' count only if the word matches a file in `directory`, because they are common in other
    texts.
    """
    text = _unquoted(word)
    if "*" in text:
        return "*"
    sign = "?" if "?" in text else "[" if re.search(r"\[.+\]", text) else None
    if sign is None:
        return None
    pattern = "".join(escape(sign) if quote else sign for sign, quote in word)
    return sign if any(iglob(pattern, root_dir=directory)) else None  # noqa: PTH207  # Path.glob rejects absolute paths


def _is_script(words: list[Word], at: int) -> bool:
    """Return whether a word is the script in `sh -c "…"`, in which the called shell expands '$'."""
    *before, option = ["", *("".join(sign for sign, _ in word) for word in words[:at])]
    return _COMMAND_OPTION.fullmatch(option) is not None and any(Path(word).name in _SHELLS for word in before)


def _unquoted(word: Word) -> str:
    return "".join(_OPAQUE if quote else sign for sign, quote in word)


def _words(line: str) -> Iterator[Word]:
    """Split a line into words as `shlex` does. Yield each word's characters with their quotation."""
    word: Word | None = None
    inside: Quote = ""
    signs = iter(line)
    for sign in signs:
        if inside == "" and sign in _BLANKS:
            if word is not None:
                yield word
            word = None
            continue
        word = [] if word is None else word
        if sign == inside:
            inside = ""
        elif inside == "" and sign in ("'", '"'):
            inside = "'" if sign == "'" else '"'
        elif sign == "\\" and inside != "'":
            after = next(signs)
            if inside == '"' and after not in ('"', "\\"):
                word.append((sign, inside))
            word.append((after, "\\"))
        else:
            word.append((sign, inside))
    if word is not None:
        yield word
