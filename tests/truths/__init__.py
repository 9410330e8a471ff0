"""Simulated true times of the arms of each study, for fake runs."""

from __future__ import annotations

from tests.fake_run import Truth
from tests.truths import encryption_at_rest
from tests.truths.audit_logging import AuditTruth
from tests.truths.http_tls_termination import HttpTruth
from tests.truths.mongodb_chained_replication import ReplicationTruth
from tests.truths.mongodb_tls import MongodbTruth
from tests.truths.mysql_column_encryption import EncryptionTruth
from tests.truths.mysql_transport import TransportTruth
from tests.truths.postgres_pooling import PoolingTruth
from tests.truths.postgres_tls import PostgresTruth
from tests.truths.redis_tls import RedisTruth

TRUTHS: dict[str, Truth] = {
    "http-tls-termination": HttpTruth(),
    "mariadb-audit-logging": AuditTruth(tpcc=True),
    "mariadb-encryption-at-rest": encryption_at_rest.MARIADB,
    "mongodb-chained-replication": ReplicationTruth(),
    "mongodb-tls": MongodbTruth(),
    "mysql-column-encryption": EncryptionTruth(),
    "mysql-transport": TransportTruth(),
    "postgres-audit-logging": AuditTruth(),
    "postgres-encryption-at-rest": encryption_at_rest.POSTGRES,
    "postgres-pooling": PoolingTruth(),
    "postgres-tls": PostgresTruth(),
    "redis-tls": RedisTruth(),
}
