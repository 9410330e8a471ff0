"""Suspected passwords in command lines: find them, and strike them out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from costof.model import HIDDEN

#: Names of options, variables and properties that hold a password; '--password-file' and 'PWD' do not.
_NAME = re.compile(
    r"(?:password|passwd|passphrase|requirepass|masterauth|secret|api[-_]?key|access[-_]?key|REDISCLI_AUTH"
    r"|(?<![A-Za-z])(?:pass|pw|token|credentials?)|(?<=[A-Za-z]_)PWD)$",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"(?P<name>-{0,2}[\w.-]+)=(?P<value>.+)", re.DOTALL)
_LOGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@:]*:(?P<value>[^\s/?#@]+)@", re.IGNORECASE)
_QUERY = re.compile(r"[?&](?P<name>[\w.-]+)=(?P<value>[^&\s]+)")
_HEADER = re.compile(
    r"(?P<name>(?:Proxy-)?Authorization|X-Api-Key)\s*:\s*(?:(?:Bearer|Basic|Token)\s+)?(?P<value>.+)", re.IGNORECASE
)
_OPENSSL = re.compile(r"pass:(?P<value>.+)")
#: Values that name the place of a password: a shell's variable, a source of OpenSSL's, a file of curl's.
_ELSEWHERE = re.compile(r"(?:\w+:)?\$|\{\w+\}|`|(?:env|file|fd):|@|stdin$|-$")


@dataclass(frozen=True)
class _Options:
    """A program's own options that a password follows, in the next word or `attached` to theirs.

    `of_login`: user and password with a colon between them; without one it holds no password.
    """

    programs: re.Pattern[str]
    names: tuple[str, ...]
    attached: bool = True
    separate: bool = True
    of_login: bool = False


_PROGRAMS = (
    _Options(re.compile(r"(?:mysql|mariadb).*"), ("-p",), separate=False),
    _Options(re.compile(r"mongo.*|sshpass|cqlsh"), ("-p",)),
    _Options(re.compile(r"(?:redis|valkey|keydb)-.*"), ("-a",), attached=False),
    _Options(re.compile(r"memtier_benchmark"), ("-a", "--authenticate")),
    _Options(re.compile(r"ab"), ("-A", "-P"), of_login=True),
    _Options(re.compile(r"curl"), ("-u", "--user", "-U", "--proxy-user"), of_login=True),
    _Options(re.compile(r"hey|oha"), ("-a",), attached=False, of_login=True),
    _Options(re.compile(r"sqlcmd"), ("-P",)),
)
#: They ask for a password where the option has none, and the next word is a database.
_PROMPTING = re.compile(r"(?:mysql|mariadb).*")


@dataclass(frozen=True)
class Password:
    """A suspected password. `place` names the option or variable before it, and no part of the password."""

    place: str
    value: str = field(repr=False)


def find_passwords(argv: Sequence[str]) -> list[Password]:
    """Return the suspected passwords in the words of a command, and in those of a script among them."""
    found = [each for each in _found(argv) if each.value and not _ELSEWHERE.match(each.value)]
    return [*{(each.place, each.value): each for each in found}.values()]


def without_passwords(line: str) -> str:
    """Return a command line without suspected passwords, and without line breaks."""
    for password in sorted(find_passwords(_split(line)), key=lambda each: len(each.value), reverse=True):
        if password.value not in line:
            # Quotation marks or backslashes stand within it.
            first = _split(line)[0]
            return "…" if find_passwords([first]) else f"{first} …"
        line = line.replace(password.value, HIDDEN)
    return " ".join(line.split())


def _found(argv: Sequence[str]) -> Iterator[Password]:
    program = ""
    for at, word in enumerate(argv):
        after = argv[at + 1] if at + 1 < len(argv) else ""
        name = Path(word).name
        if any(options.programs.fullmatch(name) for options in _PROGRAMS):
            program = name
        if " " in word or "\n" in word:
            yield from _found(_split(word))
        yield from _anywhere(word)
        if word.startswith("--") and _NAME.search(word) and not _PROMPTING.fullmatch(program):
            yield Password(word, "" if after.startswith("-") else after)
        for options in _PROGRAMS:
            if options.programs.fullmatch(program):
                yield from _after_option(options, program, word, after)


def _anywhere(word: str) -> Iterator[Password]:
    """Yield passwords of a word that look the same for every program."""
    if (found := _ASSIGNED.fullmatch(word)) and _NAME.search(found["name"]):
        yield Password(found["name"], found["value"])
    for found in _LOGIN.finditer(word):
        yield Password("the user in a URL", found["value"])
    if "://" in word:
        yield from (
            Password(each["name"], each["value"]) for each in _QUERY.finditer(word) if _NAME.search(each["name"])
        )
    for pattern in (_HEADER, _OPENSSL):
        if found := pattern.fullmatch(word):
            yield Password(found.groupdict().get("name") or "pass:", found["value"])


def _after_option(options: _Options, program: str, word: str, after: str) -> Iterator[Password]:
    for name in options.names:
        if options.separate and word == name:
            value = after
        elif options.attached and word.startswith(f"{name}=" if name.startswith("--") else name) and word != name:
            value = word.removeprefix(name).removeprefix("=")
        else:
            continue
        if options.of_login:
            value = value.partition(":")[2]
        yield Password(f"{name} of '{program}'", value)


def _split(line: str) -> list[str]:
    """Return the words of a line or a script, as far as they can be told apart."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return line.replace("'", " ").replace('"', " ").split()
