"""Command lines without a shell: how they are split, and how shell syntax and passwords in them are detected."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.instruments.commands import shell
from costof.instruments.commands.passwords import find_passwords, without_passwords
from costof.instruments.commands.shell import shell_sign, split


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("./hash.sh < small", "<"),
        ("./a > out", ">"),
        ("./a 2>&1", ">&"),
        ("./a &>out", "&>"),
        ("a | b", "|"),
        ("cd /tmp; ./a", ";"),
        ("a && b", "&&"),
        ("./server & ./client", "&"),
        ("curl http://x/& curl http://x/", "&"),
        ("echo $HOME", "$"),
        ("echo $(id)", "$"),
        ('grep "$PATTERN" small', "$"),
        ("echo `id`", "`"),
        ('echo "`id`"', "`"),
        ("wc *.log", "*"),
        ("./a ~/small", "~"),
        ("./a small # the small one", "#"),
        ("THREADS=1 ./a", "THREADS="),
        ("./a small?", "?"),
        ("./a 'sma'll?", "?"),
        ("./a small[12]", "["),
    ],
)
def test_shell_syntax_is_detected(line: str, sign: str, tmp_path: Path) -> None:
    (tmp_path / "small1").touch()
    assert shell_sign(line, tmp_path) == sign


@pytest.mark.parametrize(
    "line",
    [
        "./hash.sh '<' \"<\" \\< small",
        "sh -c './a < small | ./b > $OUT; wait *'",
        '/bin/bash -ec "echo `id` $x"',
        "awk '{ print $1 }' small",
        'awk "{ print \\$x }" small',
        "grep foo$ small",
        "wrk http://x/?a=1&b=2;c",
        "curl http://x/*",
        "./a small[34]",
        "./a 'small?'",
        "./a b~ ~user",
        "./a b#c",
        "env THREADS=1 ./a THREADS=1",
        "./a ''",
        "wrk -s 'a;b' http://x/",
    ],
)
def test_characters_without_special_meaning_in_a_shell_are_accepted(line: str, tmp_path: Path) -> None:
    (tmp_path / "small1").touch()
    assert shell_sign(line, tmp_path) is None


@given(st.text("ab '\"\\\t$<", max_size=20))
def test_command_line_is_split_into_the_same_words_as_by_shlex(line: str) -> None:
    try:
        words = shlex.split(line)
    except ValueError:
        return
    assert ["".join(sign for sign, _ in word) for word in shell._words(line)] == words


@pytest.mark.parametrize(
    ("line", "wrong"),
    [("echo it's", "no closing quotation mark"), ("echo \\", "nothing follows the backslash"), (" ", "no words")],
)
def test_command_line_that_cannot_be_split_is_refused_with_a_reason(line: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        split(line)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("mysql -h db -pS3cret shop", "-p of 'mysql'"),
        ("taskset -c 1 mysql -pS3cret", "-p of 'mysql'"),
        ("sysbench --mysql-password=S3cret run", "--mysql-password"),
        ("redis-cli -a S3cret ping", "-a of 'redis-cli'"),
        ("redis-cli --pass S3cret ping", "--pass"),
        ("memtier_benchmark --authenticate=S3cret", "--authenticate of 'memtier_benchmark'"),
        ("ab -A me:S3cret http://shop/", "-A of 'ab'"),
        ("ab -Ame:S3cret http://shop/", "-A of 'ab'"),
        ("curl --user me:S3cret http://shop/", "--user of 'curl'"),
        ("sshpass -pS3cret ssh host", "-p of 'sshpass'"),
        ("pgbench postgres://me:S3cret@db/shop", "the user in a URL"),
        ("pgbench 'host=db password=S3cret'", "password"),
        ("env MYSQL_PWD=S3cret mysqlslap", "MYSQL_PWD"),
        ("ycsb run jdbc -p db.passwd=S3cret", "db.passwd"),
        ("wrk -H 'Authorization: Bearer S3cret' http://shop/", "Authorization"),
        ("curl 'http://shop/?page=1&token=S3cret'", "token"),
        ("openssl enc -aes-256-ctr -pass pass:S3cret", "pass:"),
        ("sh -c 'mysql -pS3cret; true'", "-p of 'mysql'"),
        ("sh -c 'tar c . | PGPASSWORD=S3cret psql'", "PGPASSWORD"),
    ],
)
def test_password_in_a_command_line_is_detected_and_redacted(line: str, place: str) -> None:
    (password,) = find_passwords(shlex.split(line))
    assert (password.place, "S3cret" in password.value) == (place, True)
    assert "S3cret" not in repr(password)
    assert without_passwords(line) == line.replace(password.value, "<redacted>")


@pytest.mark.parametrize(
    "line",
    [
        "mysql -p shop",
        "mysql --password shop",
        "wrk2 -p8080 http://shop:80/@me",
        "sysbench --pgsql-password= run",
        "psql --no-password --password-file=/run/password",
        "sh -c 'redis-cli --pass $PASSWORD ping'",
        "sh -c 'mysql -p\"$PASSWORD\"'",
        "openssl enc -pass env:BACKUP_PASSWORD",
        """sh -c 'curl -H "Authorization: Bearer $TOKEN" http://shop/'""",
        "env PWD=/srv ./a compass=3",
        "curl -u me --user-agent a:b http://shop/",
    ],
)
def test_command_line_without_password_is_unchanged(line: str) -> None:
    assert find_passwords(shlex.split(line)) == []
    assert without_passwords(line) == line


def test_password_in_a_line_with_unbalanced_quotation_marks_is_redacted() -> None:
    assert without_passwords("psql --password=S3cret it's") == "psql --password=<redacted> it's"


def test_all_arguments_of_a_command_line_are_hidden_if_a_password_contains_quotation_marks() -> None:
    assert without_passwords("redis-cli --pass S3'cr'et") == "redis-cli …"
    assert without_passwords("PGPASSWORD=S3'cr'et psql") == "…"
