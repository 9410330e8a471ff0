"""URLs of targets, passwords, and markers of runs on a target. No error or printed URL shows a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from pymongo.errors import AutoReconnect, OperationFailure, ServerSelectionTimeoutError
from pymongo.monitoring import ServerHeartbeatFailedEvent, ServerHeartbeatSucceededEvent

from costof.cli.ab import AbOptions, measure_url
from costof.cli.ycsb.databases.mongodb import MongodbDatabase
from costof.cli.ycsb.databases.mysql import MysqlDatabase
from costof.errors import EXIT_USAGE, UNTRUSTED_HINT, CostofError, ErrorText
from costof.programs.access import Access, LoginUrl, Password
from costof.programs.mariadb.connection import parse_mysql_url
from costof.programs.mongod.connection import FirstHeartbeatListener, MongodbUrl, parse_mongodb_url, short_error
from costof.programs.target_database import Maker, read_marker
from costof.services.open import shown_urls
from costof.study.library import load_study
from tests.support.command import costof

#: Passwords with special characters, and passwords that other parsers have split at the wrong place.
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
    """Return what a text shows of a password: all of it, or a part left by a wrong split."""
    return [part for part in ("S3cret", "tail", password) if part in password and part in text]


@pytest.mark.parametrize("parse", [mongodb, mysql, ycsb_mongodb, ycsb_mysql])
@pytest.mark.parametrize("password", HARD)
def test_password_without_percent_encoding_is_kept_unchanged_or_refused(parse: Any, password: str) -> None:
    scheme = "mongodb" if parse in (mongodb, ycsb_mongodb) else "mysql"
    url, refused = None, None
    try:
        url = parse(f"{scheme}://shop:{password}@h/")
    except CostofError as error:
        refused = error
    if refused is None:
        text = url.shown
        parsed = (url.endpoint().service if hasattr(url, "endpoint") else url).password.get_secret_value()
        assert parsed == password
    else:
        text = str(refused)
        assert (refused.message, refused.exit_status, len(text.splitlines())) == (ErrorText.BAD_TARGET, EXIT_USAGE, 1)
        assert "percent-encode" in text or "UTF-8" in text
    assert shown_parts(password, text) == []


@pytest.mark.parametrize("password", HARD)
def test_http_url_with_credentials_is_refused_without_showing_them(password: str) -> None:
    study = load_study("http-tls-termination")
    target, plain = f"https://shop:{password}@h/", f"http://shop:{password}@h/"
    for refuses, expected in (
        (lambda: shown_urls(study, Access(target, plain_url="http://h/")), ErrorText.BAD_TARGET),
        (lambda: shown_urls(study, Access("https://h/", plain_url=plain)), ErrorText.BAD_TARGET),
        (lambda: measure_url(AbOptions(plain)), ErrorText.AB_URL),
    ):
        with pytest.raises(CostofError) as refused:
            refuses()
        assert refused.value.message is expected
        assert shown_parts(password, str(refused.value)) == []


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])))
def test_encoded_password_is_decoded_and_never_shown(password: str) -> None:
    secret = f"{password}\x1fS3cret"
    for parse, scheme in ((mongodb, "mongodb"), (mysql, "mysql")):
        url = parse(f"{scheme}://shop:{quote(secret, safe='')}@h/")
        assert url.password.get_secret_value() == secret
        assert "S3cret" not in url.shown + repr(url)


def test_shown_url_has_no_password_and_no_values_that_may_be_secret() -> None:
    shown = mongodb("mongodb://a%40b:S3cret@h1,[::1]:7/d?replicaSet=rs0&authMechanismProperties=SERVICE_NAME:x").shown
    assert shown == "mongodb://a%40b:<redacted>@h1:27017,[::1]:7/d?replicaSet=rs0"
    assert mysql("mysql://shop:S3cret@H:1/?ssl-mode=required").shown == "mysql://shop:<redacted>@H:1/?ssl-mode=required"
    assert mysql("mysql://shop@h/").shown == "mysql://shop@h:3306/"
    access = Access("https://h/a?token=S3cret&S3cret", plain_url="http://h/@S3?t=cret")
    assert shown_urls(load_study("http-tls-termination"), access) == ("https://h/a?token=…&…", "http://h/@S3?t=…")


AZURE = "mongodb://acc:S3cret==@acc.mongo.cosmos.azure.com:10255/?ssl=true&replicaSet=globaldb&retrywrites=false"


@pytest.mark.parametrize("options", ["&appName=@acc@", "&appName=@acc@&maxIdleTimeMS=120000", "&appName=a@"])
def test_at_sign_in_a_url_option_is_not_parsed_as_the_end_of_the_credentials(options: str) -> None:
    url = mongodb(AZURE + options)
    assert url.addresses == ["acc.mongo.cosmos.azure.com:10255"]
    assert (url.username, url.password) == ("acc", SecretStr("S3cret=="))
    assert url.shown == "mongodb://acc:<redacted>@acc.mongo.cosmos.azure.com:10255/?replicaSet=globaldb&tls=true"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        # The host could begin after this @, so the URL is ambiguous.
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
        *((f"mysql://shop:S3cret@{place}/", "not of the form host:port") for place in ("h:port", "[::1")),
        ("mysql://shop:S3cret@h/theirs", "creates a new database"),
        ("mysql://shop:S3cret@h/?wait=1", "ssl-mode"),
        ("mysql://:S3cret@h/", "no user"),
        ("mysql://shop:S3cret@/", "no host"),
        ("mysql://shop:S3cret@h/?ssl-mode=preferred", "verify_identity"),
        ("mysql://shop:S3cret@h/?ssl-mode=disabled&ssl-ca=/x", "both plain and TLS"),
        ("shop:S3cret@h", "percent-encode"),
        ("S3cret", "write it as"),
    ],
)
def test_error_in_a_url_is_reported_without_its_secrets(url: str, message: str) -> None:
    with pytest.raises(CostofError, match=message) as refused:
        (mysql if url.startswith("mysql") else mongodb)(url)
    assert "S3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "properties",
    [{"mongodb.url": "mongodb://h/?w=0"}, {"mongodb.url": "mongodb://h/", "mongodb.writeConcern": "unacknowledged"}],
)
def test_error_for_unacknowledged_writes_suggests_another_write_concern(properties: dict[str, str]) -> None:
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
def test_tls_is_required_if_the_url_requests_it_or_a_ca_file_is_set(url: str, tls: bool) -> None:
    parse = mysql if url.startswith("mysql") else mongodb
    assert parse(url).tls is tls
    assert "?" in url or parse(url, ca_file=Path("/ca.pem")).tls


def test_explicit_password_overrides_the_environment_but_not_a_password_in_the_url() -> None:
    explicit = Password(SecretStr("explicit"), explicit=True)
    ambient = Password(SecretStr("ambient"), explicit=False)
    assert mysql("mysql://u@h/", password=explicit).password.get_secret_value() == "explicit"
    assert mongodb("mongodb://u@h/", password=ambient).password.get_secret_value() == "ambient"
    assert mysql("mysql://u:in-url@h/", password=ambient).password.get_secret_value() == "in-url"
    with pytest.raises(CostofError) as refused:
        mysql("mysql://u:in-url@h/", password=explicit)
    assert refused.value.message is ErrorText.PASSWORD_TWICE
    assert "in-url" not in str(refused.value)
    assert "ambient" not in repr(ambient)


@pytest.mark.parametrize(
    ("detail", "hint"),
    [
        ("[SSL] certificate verify failed: unable to get local issuer certificate", UNTRUSTED_HINT),
        ("certificate verify failed: self-signed certificate in certificate chain", UNTRUSTED_HINT),
        ("connection refused", ""),
    ],
)
def test_error_about_an_unknown_certificate_authority_names_the_option_that_helps(detail: str, hint: str) -> None:
    error = CostofError(ErrorText.TARGET_UNREACHABLE, target="db:3306", detail=detail)
    assert str(error) == f"cannot reach db:3306: {detail}{hint}"


HERE, THERE = ("127.0.0.1", 1), ("127.0.0.1", 2)


def fail(listener: FirstHeartbeatListener, address: tuple[str, int], error: str) -> None:
    listener.failed(ServerHeartbeatFailedEvent(0.0, AutoReconnect(error), address))


def test_first_error_of_each_mongodb_address_is_reported_if_all_addresses_fail() -> None:
    listener = FirstHeartbeatListener(addresses=2)
    fail(listener, HERE, "certificate is not valid")
    fail(listener, HERE, "a second try")
    fail(listener, THERE, "Connection refused")
    with pytest.raises(ServerSelectionTimeoutError, match=r"^certificate is not valid,Connection refused$"):
        listener.wait()


def test_connecting_to_mongodb_succeeds_if_one_of_several_addresses_answers() -> None:
    listener = FirstHeartbeatListener(addresses=2)
    fail(listener, HERE, "Connection refused")
    listener.succeeded(ServerHeartbeatSucceededEvent(0.0, None, THERE))
    fail(listener, THERE, "Connection refused")
    listener.wait()


def test_process_counts_as_alive_only_if_pid_and_start_time_match() -> None:
    here = Maker.this_process()
    assert here.is_alive() is True
    assert here.model_copy(update={"started": here.started - 1}).is_alive() is False
    assert here.model_copy(update={"pid": 2**22 + 1}).is_alive() is False
    assert here.model_copy(update={"machine": "another"}).is_alive() is None


def test_ownership_marker_with_invalid_table_names_or_unknown_fields_is_rejected() -> None:
    content = {"run": "r", "maker": Maker.this_process().model_dump(), "made_database": True}
    assert read_marker({**content, "tables": ["usertable"]}) is not None
    for table in ("x`,`mysql`.`user", "", "a b", "a\n"):
        assert read_marker({**content, "tables": [table]}) is None
    assert read_marker({**content, "tables": [], "more": 1}) is None


def test_costof_clean_refuses_a_url_with_an_unknown_scheme(tmp_path: Path) -> None:
    done = costof("clean", "--target", "https://u:S3cret@h/", cwd=tmp_path)
    assert done.status == EXIT_USAGE
    assert "S3cret" not in done.err


def test_error_of_a_mongodb_server_is_shortened_to_its_name_and_message() -> None:
    refused = "not authorized on admin to execute command"
    command = (
        '{ serverStatus: 1, lsid: { id: UUID("0") }, $clusterTime: { clusterTime: Timestamp(1, 1) }, $db: "admin" }'
    )
    details = {"ok": 0.0, "errmsg": f"{refused} {command}", "code": 13, "codeName": "Unauthorized"}
    assert short_error(OperationFailure(details["errmsg"], 13, details)) == f"Unauthorized: {refused} serverStatus"
