"""Simulated true times of the arms of each study, for fake runs."""

from __future__ import annotations

from tests.fake_run import Truth
from tests.truths import encryption_at_rest
from tests.truths.audit_logging import AuditTruth
from tests.truths.durability import DurabilityTruth
from tests.truths.http_firewall import FirewallTruth
from tests.truths.http_tls_termination import HttpTruth
from tests.truths.mongodb_chained_replication import ReplicationTruth
from tests.truths.mongodb_tls import MongodbTruth
from tests.truths.mysql_column_encryption import EncryptionTruth
from tests.truths.mysql_transport import TransportTruth
from tests.truths.postgres_pooling import PoolingTruth
from tests.truths.postgres_tls import PostgresTruth
from tests.truths.redis_tls import RedisTruth
from tests.truths.service_mtls import ServiceTruth

TRUTHS: dict[str, Truth] = {
    "mariadb-audit-logging": AuditTruth(tpcc=True),
    "postgres-audit-logging": AuditTruth(),
    "http-firewall": FirewallTruth(),
    "http-tls-termination": HttpTruth(),
    "mariadb-durability": DurabilityTruth(
        {"0-0": (0, 0.0), "2-0": (0, 0.004), "1-0": (1, 0.02), "0-1": (1, 0.03), "2-1": (1, 0.03), "1-1": (2, 0.05)}
    ),
    "mariadb-encryption-at-rest": encryption_at_rest.MARIADB,
    "mongodb-chained-replication": ReplicationTruth(),
    "mongodb-tls": MongodbTruth(),
    "mysql-column-encryption": EncryptionTruth(),
    "mysql-transport": TransportTruth(),
    "postgres-durability": DurabilityTruth(
        {
            "off": (0, 0.0),
            "local": (1, 0.02),
            "remote_write": (1, 0.12),
            "on": (1, 0.71),
            "remote_apply": (1, 0.78),
            "unsafe": (0, 0.01),
        }
    ),
    "postgres-encryption-at-rest": encryption_at_rest.POSTGRES,
    "postgres-pooling": PoolingTruth(),
    "postgres-tls": PostgresTruth(),
    "redis-durability": DurabilityTruth(
        {"memory-only": (0, 0.0), "by-system": (0, 0.002), "each-second": (0, 0.003), "each-answer": (1, 0.012)}
    ),
    "redis-tls": RedisTruth(),
    "service-mtls": ServiceTruth(),
}
