"""Passwords in command lines: what looks like one is found and struck out, and what only says where it is stays."""

from __future__ import annotations

import shlex

import pytest

from costof.instruments.commands.passwords import find_passwords, without_passwords


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("mysql -h db -pS3cret shop", "-p of 'mysql'"),
        ("/usr/bin/mariadb-slap -pS3cret", "-p of 'mariadb-slap'"),
        ("taskset -c 1 mysql -pS3cret", "-p of 'mysql'"),
        ("sysbench --mysql-password=S3cret run", "--mysql-password"),
        ("redis-cli -a S3cret ping", "-a of 'redis-cli'"),
        ("redis-benchmark -h db -a S3cret -t get", "-a of 'redis-benchmark'"),
        ("redis-cli --pass S3cret ping", "--pass"),
        ("memtier_benchmark -a S3cret", "-a of 'memtier_benchmark'"),
        ("memtier_benchmark --authenticate=S3cret", "--authenticate of 'memtier_benchmark'"),
        ("ab -A me:S3cret http://shop/", "-A of 'ab'"),
        ("ab -Ame:S3cret http://shop/", "-A of 'ab'"),
        ("curl --user me:S3cret http://shop/", "--user of 'curl'"),
        ("mongosh -u me -p S3cret", "-p of 'mongosh'"),
        ("sshpass -pS3cret ssh host", "-p of 'sshpass'"),
        ("pgbench postgres://me:S3cret@db/shop", "the user in a URL"),
        ("redis-cli -u redis://:S3cret@db", "the user in a URL"),
        ("pgbench 'host=db password=S3cret'", "password"),
        ("env PGPASSWORD=S3cret pgbench", "PGPASSWORD"),
        ("env MYSQL_PWD=S3cret mysqlslap", "MYSQL_PWD"),
        ("ycsb run jdbc -p db.passwd=S3cret", "db.passwd"),
        ("wrk -H 'Authorization: Bearer S3cret' http://shop/", "Authorization"),
        ("curl 'http://shop/?page=1&token=S3cret'", "token"),
        ("openssl enc -aes-256-ctr -pass pass:S3cret", "pass:"),
        ("sh -c 'mysql -pS3cret; true'", "-p of 'mysql'"),
        ("sh -c 'tar c . | PGPASSWORD=S3cret psql'", "PGPASSWORD"),
    ],
)
def test_a_password_is_found_and_struck_out(line: str, place: str) -> None:
    (found,) = find_passwords(shlex.split(line))
    assert (found.place, "S3cret" in found.value) == (place, True)
    assert "S3cret" not in repr(found)
    assert without_passwords(line) == line.replace(found.value, "<redacted>")


@pytest.mark.parametrize(
    "line",
    [
        "mysql -p shop",
        "mysql --password shop",
        "mysql -h db -P3306",
        "wrk2 -p8080 http://shop:80/@me",
        "sysbench --pgsql-password= run",
        "psql --no-password --password-file=/run/password",
        "sh -c 'redis-cli --pass $PASSWORD ping'",
        "sh -c 'mysql -p\"$PASSWORD\"'",
        "openssl enc -pass env:BACKUP_PASSWORD",
        """sh -c 'curl -H "Authorization: Bearer $TOKEN" http://shop/'""",
        "sh -c 'memtier_benchmark --authenticate=me:$PASSWORD'",
        "env PWD=/srv ./a compass=3",
        "curl -u me --user-agent a:b http://shop/",
        "ab -n 1000 http://shop/",
        "ssh -p 2222 host",
    ],
)
def test_what_holds_no_password_is_left_alone(line: str) -> None:
    assert find_passwords(shlex.split(line)) == []
    assert without_passwords(line) == line


def test_a_line_that_cannot_be_split_is_shown_without_its_password() -> None:
    assert without_passwords("psql --password=S3cret it's") == "psql --password=<redacted> it's"


def test_a_password_with_quotation_marks_in_it_is_not_shown_in_parts() -> None:
    assert without_passwords("redis-cli --pass S3'cr'et") == "redis-cli …"
    assert without_passwords("PGPASSWORD=S3'cr'et psql") == "…"
