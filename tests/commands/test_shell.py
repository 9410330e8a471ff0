"""Command lines without a shell: how they are split, and which signs of a shell in them are refused."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.instruments.commands import shell
from costof.instruments.commands.shell import shell_sign, split


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("./hash.sh < small", "<"),
        ("./hash.sh x<small", "<"),
        ("./a > out", ">"),
        ("./a >out", ">"),
        ("./a 2> errors", ">"),
        ("./a 2>&1", ">&"),
        ("./a &>out", "&>"),
        ("a | b", "|"),
        ("a|b", "|"),
        ("cd /tmp; ./a", ";"),
        ("a && b", "&&"),
        ("a || b", "||"),
        ("./server & ./client", "&"),
        ("curl http://x/& curl http://x/", "&"),
        ("curl http://x/>out", ">"),
        ("echo $HOME", "$"),
        ("echo ${HOME}", "$"),
        ("echo $(id)", "$"),
        ("echo $1", "$"),
        ('grep "$PATTERN" small', "$"),
        ('python -c "print($x)"', "$"),
        ("echo `id`", "`"),
        ('echo "`id`"', "`"),
        ("wc *.log", "*"),
        ("expr 2 * 3", "*"),
        ("./a ~/small", "~"),
        ("./a ~", "~"),
        ("./a small # the small one", "#"),
        ("THREADS=1 ./a", "THREADS="),
        ("./a small?", "?"),
        ("./a 'sma'll?", "?"),
        ("./a small[12]", "["),
    ],
)
def test_a_sign_that_a_shell_would_act_on_is_found(line: str, sign: str, tmp_path: Path) -> None:
    (tmp_path / "small1").touch()
    assert shell_sign(line, tmp_path) == sign


@pytest.mark.parametrize(
    "line",
    [
        "./hash.sh '<' \"<\" \\< small",
        "sh -c './a < small | ./b > $OUT; wait *'",
        'sh -c "./a < $SMALL"',
        '/bin/bash -ec "echo `id` $x"',
        'docker exec db bash -o pipefail -c "echo $x"',
        "awk '{ print $1 }' small",
        'awk "{ print \\$x }" small',
        "grep foo$ small",
        "wrk http://x/?a=1",
        "wrk http://x/?a=1&b=2;c",
        "curl http://x/*",
        "./a large?",
        "./a small[34]",
        "./a 'small?'",
        "./a b~ ~user",
        "./a b#c",
        "env THREADS=1 ./a THREADS=1",
        "./a ''",
        "fio --filename=/dev/sda:/dev/sdb",
        "wrk -s 'a;b' http://x/",
    ],
)
def test_what_a_shell_would_pass_on_unchanged_is_no_sign(line: str, tmp_path: Path) -> None:
    (tmp_path / "small1").touch()
    assert shell_sign(line, tmp_path) is None


@given(st.text("ab '\"\\\t$<", max_size=20))
def test_words_are_those_of_shlex(line: str) -> None:
    try:
        words = shlex.split(line)
    except ValueError:
        return
    assert ["".join(sign for sign, _ in word) for word in shell._words(line)] == words


@pytest.mark.parametrize(
    ("line", "wrong"),
    [("echo it's", "no closing quotation mark"), ("echo \\", "nothing follows the backslash"), (" ", "no words")],
)
def test_what_cannot_be_split_says_why(line: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        split(line)
