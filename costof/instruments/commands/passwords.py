"""Functions that find and mask suspected passwords in command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from costof.model import HIDDEN

#: Names of options, variables and properties that hold a password. '--password-file' and 'PWD' do not match.
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
#: Values that refer to a password: '$PASSWORD', 'env:PASSWORD' and 'file:…' for OpenSSL, '@file' for curl.
_ELSEWHERE = re.compile(r"(?:\w+:)?\$|\{\w+\}|`|(?:env|file|fd):|@|stdin$|-$")


@dataclass(frozen=True)
class _Options:
    """Options whose value is a password in some programs.

    The value is the next word of the command line if `separate` ('-a secret'), or the rest of the same word if
    `attached` ('-psecret'). Both may be allowed. With `has_user` the value is 'user:password', so a value without a
    colon holds no password.
    """

    programs: re.Pattern[str]
    names: tuple[str, ...]
    attached: bool = True
    separate: bool = True
    has_user: bool = False


_PROGRAMS = (
    _Options(re.compile(r"(?:mysql|mariadb).*"), ("-p",), separate=False),
    _Options(re.compile(r"mongo.*|sshpass|cqlsh"), ("-p",)),
    _Options(re.compile(r"(?:redis|valkey|keydb)-.*"), ("-a",), attached=False),
    _Options(re.compile(r"memtier_benchmark"), ("-a", "--authenticate")),
    _Options(re.compile(r"ab"), ("-A", "-P"), has_user=True),
    _Options(re.compile(r"curl"), ("-u", "--user", "-U", "--proxy-user"), has_user=True),
    _Options(re.compile(r"hey|oha"), ("-a",), attached=False, has_user=True),
    _Options(re.compile(r"sqlcmd"), ("-P",)),
)
#: Programs that prompt for a password if `--password` has no '=value'. The next word is then the name of a database.
_PROMPTS_FOR_PASSWORD = re.compile(r"(?:mysql|mariadb).*")


@dataclass(frozen=True)
class Password:
    """A suspected password. `place` names the option or variable that holds the password, and is safe to print."""

    place: str
    value: str = field(repr=False)


def find_passwords(argv: Sequence[str]) -> list[Password]:
    """Return the suspected passwords in a command's words. If a word is a shell script, its words are searched too."""
    passwords = [each for each in _suspects(argv) if each.value and not _ELSEWHERE.match(each.value)]
    return [*{(each.place, each.value): each for each in passwords}.values()]


def without_passwords(line: str) -> str:
    """Return a command line with suspected passwords masked and line breaks replaced by spaces."""
    for password in sorted(find_passwords(_split(line)), key=lambda each: len(each.value), reverse=True):
        if password.value not in line:
            # The password is quoted or escaped in the line, so `replace` would not find it. Show only the program.
            first = _split(line)[0]
            return "…" if find_passwords([first]) else f"{first} …"
        line = line.replace(password.value, HIDDEN)
    return " ".join(line.split())


def _suspects(argv: Sequence[str]) -> Iterator[Password]:
    program = ""
    for at, word in enumerate(argv):
        after = argv[at + 1] if at + 1 < len(argv) else ""
        name = Path(word).name
        if any(options.programs.fullmatch(name) for options in _PROGRAMS):
            program = name
        if " " in word or "\n" in word:
            yield from _suspects(_split(word))
        yield from _in_any_program(word)
        if word.startswith("--") and _NAME.search(word) and not _PROMPTS_FOR_PASSWORD.fullmatch(program):
            yield Password(word, "" if after.startswith("-") else after)
        for options in _PROGRAMS:
            if options.programs.fullmatch(program):
                yield from _after_option(options, program, word, after)


def _in_any_program(word: str) -> Iterator[Password]:
    """Yield passwords in forms that do not depend on the program, such as name=value and URLs."""
    if (match := _ASSIGNED.fullmatch(word)) and _NAME.search(match["name"]):
        yield Password(match["name"], match["value"])
    for match in _LOGIN.finditer(word):
        yield Password("the user in a URL", match["value"])
    if "://" in word:
        yield from (
            Password(each["name"], each["value"]) for each in _QUERY.finditer(word) if _NAME.search(each["name"])
        )
    for pattern in (_HEADER, _OPENSSL):
        if match := pattern.fullmatch(word):
            yield Password(match.groupdict().get("name") or "pass:", match["value"])


def _after_option(options: _Options, program: str, word: str, after: str) -> Iterator[Password]:
    for name in options.names:
        if options.separate and word == name:
            value = after
        elif options.attached and word.startswith(f"{name}=" if name.startswith("--") else name) and word != name:
            value = word.removeprefix(name).removeprefix("=")
        else:
            continue
        if options.has_user:
            value = value.partition(":")[2]
        yield Password(f"{name} of '{program}'", value)


def _split(line: str) -> list[str]:
    """Return the words of a command line or script. If its quotes are unbalanced, split it at blanks and quotes."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return line.replace("'", " ").replace('"', " ").split()
