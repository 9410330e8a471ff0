"""URLs of targets: read in one way or refused, and shown without what may be a secret."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from costof.cli.ab import AbOptions, ask
from costof.cli.ycsb.databases.mongodb import MongodbDatabase
from costof.cli.ycsb.databases.mysql import MysqlDatabase
from costof.errors import EXIT_USAGE, CostofError, Problem
from costof.programs.access import Access, LoginUrl, Password
from costof.programs.mariadb.connection import parse_mysql_url
from costof.programs.mongod.connection import MongodbUrl, parse_mongodb_url
from costof.services.open import shown_urls
from costof.study.library import load_study

#: What a password may not be, and passwords that other parsers have split at the wrong place.
HARD = ["S3cret" + sign + "tail" for sign in "@:/?#%+ \"'\\&=;<>`{|}^ä密\t\n\x00"]
HARD += ["srv1:S3cret", "12/34tail", "1?S3cret", "S3cret@h2/tail", "%zztail", "%ff%fetail", "S3cret\udce4tail"]


def mongodb(url: str, **more: object) -> MongodbUrl:
    return parse_mongodb_url(Access(url, **more), "mongodb-tls")  # type: ignore[arg-type]


def mysql(url: str, **more: object) -> LoginUrl:
    return parse_mysql_url(Access(url, **more), "mysql-transport")  # type: ignore[arg-type]


def ycsb_mongodb(url: str) -> MongodbDatabase:
    return MongodbDatabase({"mongodb.url": url}, "usertable")


def ycsb_mysql(url: str) -> MysqlDatabase:
    return MysqlDatabase({"db.url": f"jdbc:{url}ycsb"}, "usertable")


def parts_of(password: str) -> list[str]:
    """What may be seen of a password nowhere: itself, and whatever a wrong split would leave of it."""
    return [part for part in ("S3cret", "tail", password) if part in password]


@pytest.mark.parametrize("parse", [mongodb, mysql, ycsb_mongodb, ycsb_mysql])
@pytest.mark.parametrize("password", HARD)
def test_a_raw_password_is_taken_as_it_is_or_refused_unquoted(parse: object, password: str) -> None:
    scheme = "mongodb" if parse in (mongodb, ycsb_mongodb) else "mysql"
    url, refused = None, None
    try:
        url = parse(f"{scheme}://shop:{password}@h/")  # type: ignore[operator]
    except CostofError as error:
        refused = error
    if refused is None:
        told = url.shown
        kept = (url.endpoint().service if hasattr(url, "endpoint") else url).password.get_secret_value()
        assert kept == password
    else:
        told = str(refused)
        assert (refused.problem, refused.exit_status) == (Problem.BAD_TARGET, EXIT_USAGE)
        assert len(told.splitlines()) == 1
        assert "percent-encode" in told or "UTF-8" in told
    assert not [part for part in parts_of(password) if part in told]


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])))
def test_an_encoded_password_is_read_back_and_never_shown(password: str) -> None:
    secret = f"{password}\x1fS3cret"
    for parse, scheme in ((mongodb, "mongodb"), (mysql, "mysql")):
        url = parse(f"{scheme}://shop:{quote(secret, safe='')}@h/")
        assert url.password.get_secret_value() == secret
        assert "S3cret" not in url.shown + repr(url)


def test_what_is_shown_is_put_together_from_its_parts() -> None:
    shown = mongodb("mongodb://a%40b:S3cret@h1,[::1]:7/d?replicaSet=rs0&authMechanismProperties=SERVICE_NAME:x").shown
    assert shown == "mongodb://a%40b:<redacted>@h1:27017,[::1]:7/d?replicaSet=rs0"
    assert mysql("mysql://shop:S3cret@H:1/?ssl-mode=required").shown == "mysql://shop:<redacted>@H:1/?ssl-mode=required"
    assert mysql("mysql://shop@h/").shown == "mysql://shop@h:3306/"


AZURE = "mongodb://acc:S3cret==@acc.mongo.cosmos.azure.com:10255/?ssl=true&replicaSet=globaldb&retrywrites=false"


@pytest.mark.parametrize("options", ["&appName=@acc@", "&appName=@acc@&maxIdleTimeMS=120000", "&appName=a@"])
def test_an_at_sign_of_an_option_is_none_of_the_login(options: str) -> None:
    url = mongodb(AZURE + options)
    assert url.addresses == ["acc.mongo.cosmos.azure.com:10255"]
    assert (url.username, url.password) == ("acc", SecretStr("S3cret=="))
    assert url.shown == "mongodb://acc:<redacted>@acc.mongo.cosmos.azure.com:10255/?replicaSet=globaldb&tls=true"


def test_an_at_sign_that_a_host_may_follow_is_told_of_where_it_stands() -> None:
    with pytest.raises(CostofError, match="an @ among the options after the '\\?' as %40") as refused:
        mongodb(AZURE + "&appName=@acc")
    assert "S3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "properties",
    [{"mongodb.url": "mongodb://h/?w=0"}, {"mongodb.url": "mongodb://h/", "mongodb.writeConcern": "unacknowledged"}],
)
def test_writes_that_nobody_acknowledges_are_refused_with_what_to_write(properties: dict[str, str]) -> None:
    with pytest.raises(CostofError, match=r"w=0 asks for writes that no server answers.*write w=1 or w=majority"):
        MongodbDatabase(properties, "t")


def test_values_of_a_query_are_not_shown() -> None:
    access = Access("https://h/a?token=S3cret&S3cret", plain_url="http://h/@S3?t=cret")
    assert shown_urls(load_study("http-tls-termination"), access) == ("https://h/a?token=…&…", "http://h/@S3?t=…")


@pytest.mark.parametrize("password", HARD)
def test_an_http_url_with_a_login_is_refused_unquoted(password: str) -> None:
    study = load_study("http-tls-termination")
    for target, plain in (("https://shop:{}@h/", "http://h/"), ("https://h/", "http://shop:{}@h/")):
        with pytest.raises(CostofError) as refused:
            shown_urls(study, Access(target.format(password), plain_url=plain.format(password)))
        assert refused.value.problem is Problem.BAD_TARGET
        assert not [part for part in parts_of(password) if part in str(refused.value)]


@pytest.mark.parametrize("password", HARD)
def test_ab_refuses_a_login_unquoted(password: str) -> None:
    with pytest.raises(CostofError) as refused:
        ask(AbOptions(f"http://shop:{password}@h/"))
    assert refused.value.problem is Problem.AB_URL
    assert not [part for part in parts_of(password) if part in str(refused.value)]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mongodb://shop:S3cret@h:port/", "not host:port"),
        ("mongodb://shop:S3cret@h:99999/", "not host:port"),
        ("mongodb://shop:S3cret@/", "names no host"),
        ("mongodb://shop:S3cret@%2Ftmp%2Fmongodb-27017.sock/", "Unix socket"),
        ("mongodb://:S3cret@h/", "names no user"),
        ("mongodb://shop:S3cret@h/?replicaSet=a&S3cret=1", "option 2 after"),
        ("mongodb://shop:S3cret@h/?tls=S3cret", "option 1 after"),
        ("mongodb://shop:S3cret@h/?tls=true&tlsInsecure=true", "leave tls"),
        ("mongodb://shop:S3cret@h/?w=0", "no latency to measure; leave w out"),
        ("mongodb://shop:S3cret@h/?tls=true&tlsCAFile=/S3cret", "cannot be read"),
        ("mysql://shop:S3cret@h:port/", "not host:port"),
        ("mysql://shop:S3cret@[::1/", "not host:port"),
        ("mysql://shop:S3cret@h/theirs", "a database of its own"),
        ("mysql://shop:S3cret@h/?wait=1", "ssl-mode"),
        ("mysql://:S3cret@h/", "no user"),
        ("mysql://shop:S3cret@/", "no host"),
        ("mysql://shop:S3cret@h/?ssl-mode=preferred", "verify_identity"),
        ("mysql://shop:S3cret@h/?ssl-mode=disabled&ssl-ca=/x", "plain and for TLS at once"),
        ("shop:S3cret@h", "percent-encode"),
        ("S3cret", "write it as"),
    ],
)
def test_what_is_wrong_with_a_url_is_told_without_it(url: str, told: str) -> None:
    with pytest.raises(CostofError, match=told) as refused:
        (mysql if url.startswith("mysql") else mongodb)(url)
    assert "S3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "ca_file", "tls"),
    [
        ("mysql://u@h/", None, False),
        ("mysql://u@h/", "/ca.pem", True),
        ("mysql://u@h/?ssl-mode=DISABLED", None, False),
        ("mysql://u@h/?sslMode=REQUIRED", None, True),
        ("mysql://u@h/?ssl-mode=VERIFY-CA", None, True),
        ("mysql://u@h/?ssl-ca=/ca.pem", None, True),
        ("mysql://u@h/?tls=true", None, True),
        ("mongodb://u@h/", None, False),
        ("mongodb://u@h/", "/ca.pem", True),
        ("mongodb://u@h/?tls=true", None, True),
        ("mongodb://u@h/?ssl=true", None, True),
        ("mongodb://u@h/?tls=false", None, False),
    ],
)
def test_tls_is_asked_for_by_the_url_or_a_ca(url: str, ca_file: str | None, tls: bool) -> None:
    parse = mysql if url.startswith("mysql") else mongodb
    assert parse(url, ca_file=Path(ca_file) if ca_file else None).tls is tls


def test_one_password_is_taken_and_two_are_refused() -> None:
    said, ambient = Password(SecretStr("said"), said=True), Password(SecretStr("ambient"), said=False)
    assert mysql("mysql://u@h/", password=said).password.get_secret_value() == "said"
    assert mongodb("mongodb://u@h/", password=ambient).password.get_secret_value() == "ambient"
    assert mysql("mysql://u:own@h/", password=ambient).password.get_secret_value() == "own"
    with pytest.raises(CostofError) as refused:
        mysql("mysql://u:own@h/", password=said)
    assert refused.value.problem is Problem.PASSWORD_TWICE
    assert "own" not in str(refused.value)
    assert "ambient" not in repr(ambient)
