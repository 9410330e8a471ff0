"""URLs of targets: read in one way or refused, shown without what may be a secret; and who a guest's marker names."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from pymongo.errors import AutoReconnect, ServerSelectionTimeoutError
from pymongo.monitoring import ServerHeartbeatFailedEvent, ServerHeartbeatSucceededEvent

from costof.cli.ab import AbOptions, ask
from costof.cli.ycsb.databases.mongodb import MongodbDatabase
from costof.cli.ycsb.databases.mysql import MysqlDatabase
from costof.errors import EXIT_USAGE, UNTRUSTED_HINT, CostofError, ErrorText
from costof.programs.access import Access, LoginUrl, Password
from costof.programs.mariadb.connection import parse_mysql_url
from costof.programs.mongod.connection import FirstHeartbeatListener, MongodbUrl, parse_mongodb_url
from costof.programs.target_database import Maker, read_marker
from costof.services.open import shown_urls
from costof.study.library import load_study
from tests.support.command import costof

#: What a password may not be, and passwords that other parsers have split at the wrong place.
HARD = ["S3cret" + sign + "tail" for sign in "@:/?#%+ \"'\\&=;<>`{|}^ä密\t\n\x00"]
HARD += ["srv1:S3cret", "12/34tail", "1?S3cret", "S3cret@h2/tail", "%zztail", "%ff%fetail", "S3cret\udce4tail"]


def mongodb(url: str, **more: Any) -> MongodbUrl:
    return parse_mongodb_url(Access(url, **more), "mongodb-tls")


def mysql(url: str, **more: Any) -> LoginUrl:
    return parse_mysql_url(Access(url, **more), "mysql-transport")


def ycsb_mongodb(url: str) -> MongodbDatabase:
    return MongodbDatabase({"mongodb.url": url}, "usertable")


def ycsb_mysql(url: str) -> MysqlDatabase:
    return MysqlDatabase({"db.url": f"jdbc:{url}ycsb"}, "usertable")


def shown_parts(password: str, text: str) -> list[str]:
    """What is seen of a password: itself, or what a wrong split would leave of it."""
    return [part for part in ("S3cret", "tail", password) if part in password and part in text]


@pytest.mark.parametrize("parse", [mongodb, mysql, ycsb_mongodb, ycsb_mysql])
@pytest.mark.parametrize("password", HARD)
def test_a_raw_password_is_taken_as_it_is_or_refused_unquoted(parse: Any, password: str) -> None:
    scheme = "mongodb" if parse in (mongodb, ycsb_mongodb) else "mysql"
    url, refused = None, None
    try:
        url = parse(f"{scheme}://shop:{password}@h/")
    except CostofError as error:
        refused = error
    if refused is None:
        said = url.shown
        kept = (url.endpoint().service if hasattr(url, "endpoint") else url).password.get_secret_value()
        assert kept == password
    else:
        said = str(refused)
        assert (refused.problem, refused.exit_status, len(said.splitlines())) == (ErrorText.BAD_TARGET, EXIT_USAGE, 1)
        assert "percent-encode" in said or "UTF-8" in said
    assert shown_parts(password, said) == []


@pytest.mark.parametrize("password", HARD)
def test_an_http_url_with_a_login_is_refused_unquoted(password: str) -> None:
    study = load_study("http-tls-termination")
    target, plain = f"https://shop:{password}@h/", f"http://shop:{password}@h/"
    for refuses, problem in (
        (lambda: shown_urls(study, Access(target, plain_url="http://h/")), ErrorText.BAD_TARGET),
        (lambda: shown_urls(study, Access("https://h/", plain_url=plain)), ErrorText.BAD_TARGET),
        (lambda: ask(AbOptions(plain)), ErrorText.AB_URL),
    ):
        with pytest.raises(CostofError) as refused:
            refuses()
        assert refused.value.problem is problem
        assert shown_parts(password, str(refused.value)) == []


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
    access = Access("https://h/a?token=S3cret&S3cret", plain_url="http://h/@S3?t=cret")
    assert shown_urls(load_study("http-tls-termination"), access) == ("https://h/a?token=…&…", "http://h/@S3?t=…")


AZURE = "mongodb://acc:S3cret==@acc.mongo.cosmos.azure.com:10255/?ssl=true&replicaSet=globaldb&retrywrites=false"


@pytest.mark.parametrize("options", ["&appName=@acc@", "&appName=@acc@&maxIdleTimeMS=120000", "&appName=a@"])
def test_an_at_sign_of_an_option_is_none_of_the_login(options: str) -> None:
    url = mongodb(AZURE + options)
    assert url.addresses == ["acc.mongo.cosmos.azure.com:10255"]
    assert (url.username, url.password) == ("acc", SecretStr("S3cret=="))
    assert url.shown == "mongodb://acc:<redacted>@acc.mongo.cosmos.azure.com:10255/?replicaSet=globaldb&tls=true"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        # A host may follow this one.
        (AZURE + "&appName=@acc", "an @ among the options after the '\\?' as %40"),
        *((f"mongodb://shop:S3cret@{place}/", "not host:port") for place in ("h:port", "h:99999")),
        ("mongodb://shop:S3cret@/", "has no host"),
        ("mongodb://shop:S3cret@%2Ftmp%2Fmongodb-27017.sock/", "Unix socket"),
        ("mongodb://:S3cret@h/", "has no user"),
        ("mongodb://shop:S3cret@h/?replicaSet=a&S3cret=1", "option 2 after"),
        ("mongodb://shop:S3cret@h/?tls=S3cret", "option 1 after"),
        ("mongodb://shop:S3cret@h/?tls=true&tlsInsecure=true", "remove tls"),
        ("mongodb://shop:S3cret@h/?w=0", "no latency to measure; remove w"),
        ("mongodb://shop:S3cret@h/?tls=true&tlsCAFile=/S3cret", "cannot be read"),
        *((f"mysql://shop:S3cret@{place}/", "not host:port") for place in ("h:port", "[::1")),
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
    "properties",
    [{"mongodb.url": "mongodb://h/?w=0"}, {"mongodb.url": "mongodb://h/", "mongodb.writeConcern": "unacknowledged"}],
)
def test_writes_that_nobody_acknowledges_are_refused_with_what_to_write(properties: dict[str, str]) -> None:
    with pytest.raises(CostofError, match=r"with w=0 the server does not answer writes.*write w=1 or w=majority"):
        MongodbDatabase(properties, "t")


@pytest.mark.parametrize(
    ("url", "tls"),
    [
        ("mysql://u@h/", False),
        ("mysql://u@h/?ssl-mode=DISABLED", False),
        *((f"mysql://u@h/?{option}", True) for option in ("sslMode=REQUIRED", "ssl-mode=VERIFY-CA", "tls=true")),
        ("mysql://u@h/?ssl-ca=/ca.pem", True),
        ("mongodb://u@h/", False),
        ("mongodb://u@h/?tls=false", False),
        *((f"mongodb://u@h/?{option}", True) for option in ("tls=true", "ssl=true")),
    ],
)
def test_tls_is_asked_for_by_the_url_or_a_ca(url: str, tls: bool) -> None:
    parse = mysql if url.startswith("mysql") else mongodb
    assert parse(url).tls is tls
    assert "?" in url or parse(url, ca_file=Path("/ca.pem")).tls


def test_one_password_is_taken_and_two_are_refused() -> None:
    said, ambient = Password(SecretStr("said"), said=True), Password(SecretStr("ambient"), said=False)
    assert mysql("mysql://u@h/", password=said).password.get_secret_value() == "said"
    assert mongodb("mongodb://u@h/", password=ambient).password.get_secret_value() == "ambient"
    assert mysql("mysql://u:own@h/", password=ambient).password.get_secret_value() == "own"
    with pytest.raises(CostofError) as refused:
        mysql("mysql://u:own@h/", password=said)
    assert refused.value.problem is ErrorText.PASSWORD_TWICE
    assert "own" not in str(refused.value)
    assert "ambient" not in repr(ambient)


@pytest.mark.parametrize(
    ("detail", "hint"),
    [
        ("[SSL] certificate verify failed: unable to get local issuer certificate", UNTRUSTED_HINT),
        ("certificate verify failed: self-signed certificate in certificate chain", UNTRUSTED_HINT),
        ("connection refused", ""),
    ],
)
def test_a_certificate_of_an_unknown_authority_names_the_option_for_it(detail: str, hint: str) -> None:
    error = CostofError(ErrorText.TARGET_UNREACHABLE, target="db:3306", detail=detail)
    assert str(error) == f"cannot reach db:3306: {detail}{hint}"


HERE, THERE = ("127.0.0.1", 1), ("127.0.0.1", 2)


def failed(look: FirstHeartbeatListener, address: tuple[str, int], words: str) -> None:
    look.failed(ServerHeartbeatFailedEvent(0.0, AutoReconnect(words), address))


def test_a_mongodb_whose_addresses_all_fail_is_told_in_their_own_words_once() -> None:
    """As soon as each has failed once, though the client has not heard of it yet."""
    look = FirstHeartbeatListener(addresses=2)
    failed(look, HERE, "certificate is not valid")
    failed(look, HERE, "a second try")
    failed(look, THERE, "Connection refused")
    with pytest.raises(ServerSelectionTimeoutError, match=r"^certificate is not valid,Connection refused$"):
        look.found()


def test_one_address_that_answers_is_enough() -> None:
    look = FirstHeartbeatListener(addresses=2)
    failed(look, HERE, "Connection refused")
    look.succeeded(ServerHeartbeatSucceededEvent(0.0, None, THERE))
    failed(look, THERE, "Connection refused")
    look.found()


def test_a_maker_is_known_by_its_number_and_its_start() -> None:
    here = Maker.this_process()
    assert here.is_alive() is True
    assert here.model_copy(update={"started": here.started - 1}).is_alive() is False
    assert here.model_copy(update={"pid": 2**22 + 1}).is_alive() is False
    assert here.model_copy(update={"machine": "another"}).is_alive() is None


def test_a_marker_that_names_more_than_a_table_is_not_intact() -> None:
    about = {"run": "r", "maker": Maker.this_process().model_dump(), "made_database": True}
    assert read_marker({**about, "tables": ["usertable"]}) is not None
    for table in ("x`,`mysql`.`user", "", "a b", "a\n"):
        assert read_marker({**about, "tables": [table]}) is None
    assert read_marker({**about, "tables": [], "more": 1}) is None


def test_clean_refuses_a_url_of_another_kind(tmp_path: Path) -> None:
    done = costof("clean", "--target", "https://u:S3cret@h/", cwd=tmp_path)
    assert done.status == EXIT_USAGE
    assert "S3cret" not in done.err
