"""Properties by which go-ycsb names a database, and what says the same here, in YCSB's own names."""

from __future__ import annotations

from collections.abc import Iterator

from costof.cli.ycsb.properties import Properties
from costof.errors import CostofError, Problem
from costof.format import listed

_JDBC = {"user": "db.user=USER", "password": "db.passwd=PASSWORD"}
_MYSQL = "db.url=jdbc:mysql://HOST:3306/DATABASE"
_POSTGRESQL = "db.url=jdbc:postgresql://HOST:5432/DATABASE"
_REDIS = "redis.host=HOST and -p redis.port=PORT"
_REDIS_LOG_IN = "redis.password=PASSWORD (the binding of YCSB's logs in as the default user)"
_REDIS_TLS = "redis.host=HOST (the binding of YCSB's speaks no TLS; `costof run redis-tls` measures it)"
_MONGODB_LOG_IN = "mongodb.url=mongodb://USER:PASSWORD@HOST:27017/DATABASE?authSource=admin"
#: By the prefix of their names.
_INSTEAD = {
    "mysql": {**dict.fromkeys(("host", "port", "db"), _MYSQL), **_JDBC},
    "pg": {
        **dict.fromkeys(("host", "port", "db"), _POSTGRESQL),
        "sslmode": f"{_POSTGRESQL}?sslmode=MODE",
        **_JDBC,
    },
    "redis": {
        "addr": _REDIS,
        "username": _REDIS_LOG_IN,
        "db": f"{_REDIS} (the binding of YCSB's asks database 0 alone)",
        **dict.fromkeys(("tls_ca", "tls_cert", "tls_key", "tls_insecure_skip_verify"), _REDIS_TLS),
    },
    "mongodb": {
        **dict.fromkeys(("username", "password", "authdb"), _MONGODB_LOG_IN),
        "namespace": "mongodb.database=DATABASE and table=COLLECTION",
        "tls_ca_file": "mongodb.url=mongodb://HOST/?tls=true&tlsCAFile=FILE",
        "tls_skip_verify": "mongodb.url=mongodb://HOST/?tls=true&tlsInsecure=true",
    },
}
#: The prefixes of a database's names, by its binding.
_PREFIXES = {"jdbc": ("mysql", "pg"), "mysql": ("mysql",), "postgresql": ("pg",)}
#: Values that ask for what is done without them.
SAY_NOTHING = ("", "0", "false")


def check_names(binding: str, properties: Properties) -> None:
    """Refuse what go-ycsb would read to find the database: ignored, another one would be measured.

    Raises `YCSB_NAMES_OF_GO`.
    """
    found = dict(_replaced(binding, properties))
    if found:
        said = [*dict.fromkeys(found.values())]
        # A URL with an option says what the bare one does.
        needed = [each for each in said if not any(other != each and other.startswith(each) for other in said)]
        instead = " and ".join(f"-p {each}" for each in needed)
        raise CostofError(Problem.YCSB_NAMES_OF_GO, names=listed([*found]), instead=instead)


def _replaced(binding: str, properties: Properties) -> Iterator[tuple[str, str]]:
    for prefix in _PREFIXES.get(binding, (binding,)):
        for name, instead in _INSTEAD.get(prefix, {}).items():
            if properties.get(f"{prefix}.{name}", "").strip().lower() not in SAY_NOTHING:
                yield f"{prefix}.{name}", instead
