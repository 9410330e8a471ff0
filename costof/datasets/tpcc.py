"""TPC-C's tables and consistency conditions (specification, revision 5.11), for MySQL and MariaDB.

costof's load generator loads the data and runs the transactions (`engine/crates/workload/src/tpcc/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

TABLES = (
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "orders",
    "order_line",
    "item",
    "stock",
)
DISTRICTS = 10
UNITS_OF_A_WAREHOUSE = 111
UNITS_OF_THE_ITEMS = 100

#: The tables' options. The defaults would differ between servers. The binary collation compares text by its bytes,
#: which is sufficient because all text is ASCII.
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
_ADDRESS = (
    "{0}_street_1 VARCHAR(20) NOT NULL, {0}_street_2 VARCHAR(20) NOT NULL, {0}_city VARCHAR(20) NOT NULL, "
    "{0}_state CHAR(2) NOT NULL, {0}_zip CHAR(9) NOT NULL"
)

#: The tables' columns (clause 1.3). The specification allows some counters only four digits. Here they are integers, so
#: that no run can overflow them. History has no primary key (clause 1.3.1). There are no foreign keys: clause 1.3 does
#: not require them, and with them each insert would read and lock rows of the referenced tables, such as the warehouse.
#: `orphans` finds broken references instead.
COLUMNS = {
    "warehouse": (
        f"w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, {_ADDRESS.format('w')}, w_tax DECIMAL(4,4) NOT NULL, "
        "w_ytd DECIMAL(12,2) NOT NULL, PRIMARY KEY (w_id)"
    ),
    "district": (
        f"d_id TINYINT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, {_ADDRESS.format('d')}, "
        "d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL, d_next_o_id INT NOT NULL, "
        "PRIMARY KEY (d_w_id, d_id)"
    ),
    "customer": (
        "c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16) NOT NULL, "
        f"c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, {_ADDRESS.format('c')}, c_phone CHAR(16) NOT NULL, "
        "c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL, c_credit_lim DECIMAL(12,2) NOT NULL, "
        "c_discount DECIMAL(4,4) NOT NULL, c_balance DECIMAL(12,2) NOT NULL, c_ytd_payment DECIMAL(12,2) NOT NULL, "
        "c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL, c_data VARCHAR(500) NOT NULL, "
        "PRIMARY KEY (c_w_id, c_d_id, c_id), KEY customer_name (c_w_id, c_d_id, c_last, c_first)"
    ),
    "history": (
        "h_c_id INT NOT NULL, h_c_d_id TINYINT NOT NULL, h_c_w_id INT NOT NULL, h_d_id TINYINT NOT NULL, "
        "h_w_id INT NOT NULL, h_date DATETIME NOT NULL, h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL"
    ),
    "new_order": (
        "no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id)"
    ),
    "orders": (
        "o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id INT NOT NULL, o_c_id INT NOT NULL, "
        "o_entry_d DATETIME NOT NULL, o_carrier_id TINYINT, o_ol_cnt TINYINT NOT NULL, o_all_local TINYINT NOT NULL, "
        "PRIMARY KEY (o_w_id, o_d_id, o_id), KEY orders_customer (o_w_id, o_d_id, o_c_id, o_id)"
    ),
    "order_line": (
        "ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id INT NOT NULL, ol_number TINYINT NOT NULL, "
        "ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, ol_delivery_d DATETIME, ol_quantity TINYINT NOT NULL, "
        "ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL, "
        "PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)"
    ),
    "item": (
        "i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5,2) NOT NULL, "
        "i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id)"
    ),
    # The string columns may be NULL, because New-Order updates many rows with one INSERT … ON DUPLICATE KEY UPDATE that
    # omits them. With NOT NULL, the server would reject the statement although the rows exist.
    "stock": (
        "s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT NOT NULL, "
        + "".join(f"s_dist_{district:02} CHAR(24), " for district in range(1, DISTRICTS + 1))
        + "s_ytd INT NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL, s_data VARCHAR(50), "
        "PRIMARY KEY (s_w_id, s_i_id)"
    ),
}

#: The references between tables (clause 1.3.1), as (table, its columns, referenced table, referenced columns).
REFERENCES = (
    ("district", ("d_w_id",), "warehouse", ("w_id",)),
    ("customer", ("c_w_id", "c_d_id"), "district", ("d_w_id", "d_id")),
    ("history", ("h_c_w_id", "h_c_d_id", "h_c_id"), "customer", ("c_w_id", "c_d_id", "c_id")),
    ("history", ("h_w_id", "h_d_id"), "district", ("d_w_id", "d_id")),
    ("new_order", ("no_w_id", "no_d_id", "no_o_id"), "orders", ("o_w_id", "o_d_id", "o_id")),
    ("orders", ("o_w_id", "o_d_id", "o_c_id"), "customer", ("c_w_id", "c_d_id", "c_id")),
    ("order_line", ("ol_w_id", "ol_d_id", "ol_o_id"), "orders", ("o_w_id", "o_d_id", "o_id")),
    ("order_line", ("ol_supply_w_id", "ol_i_id"), "stock", ("s_w_id", "s_i_id")),
    ("stock", ("s_w_id",), "warehouse", ("w_id",)),
    ("stock", ("s_i_id",), "item", ("i_id",)),
)

#: The consistency conditions, under their numbers in clause 3.3.2. Each has a description, and a query that returns the
#: rows that violate the condition. The conditions hold whenever no transaction is running.
CONSISTENCY = {
    1: (
        "a warehouse's w_ytd is the sum of its districts' d_ytd",
        "SELECT w_id, w_ytd, total FROM warehouse "
        "LEFT JOIN (SELECT d_w_id, SUM(d_ytd) AS total FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id "
        "WHERE NOT w_ytd <=> total",
    ),
    2: (
        "a district's d_next_o_id - 1 is its largest o_id and no_o_id",
        "SELECT d_w_id, d_id, d_next_o_id, largest_o, largest_no FROM district "
        "LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS largest_o FROM orders GROUP BY o_w_id, o_d_id) AS o "
        "ON o_w_id = d_w_id AND o_d_id = d_id "
        "LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS largest_no FROM new_order GROUP BY no_w_id, no_d_id) AS n "
        "ON no_w_id = d_w_id AND no_d_id = d_id "
        "WHERE NOT d_next_o_id - 1 <=> largest_o OR largest_no <> d_next_o_id - 1",
    ),
    3: (
        "a district's new orders have consecutive numbers",
        "SELECT no_w_id, no_d_id, MIN(no_o_id), MAX(no_o_id), COUNT(*) FROM new_order GROUP BY no_w_id, no_d_id "
        "HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)",
    ),
    4: (
        "a district's orders have as many lines as the sum of their o_ol_cnt",
        "SELECT d_w_id, d_id, counted, there FROM district "
        "LEFT JOIN (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS counted FROM orders GROUP BY o_w_id, o_d_id) AS o "
        "ON o_w_id = d_w_id AND o_d_id = d_id "
        "LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS there FROM order_line GROUP BY ol_w_id, ol_d_id) AS l "
        "ON ol_w_id = d_w_id AND ol_d_id = d_id WHERE NOT counted <=> there",
    ),
    5: (
        "an order has no carrier exactly if it is a new order",
        "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders "
        "LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id "
        "WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    6: (
        "an order has as many lines as its o_ol_cnt says",
        "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, there FROM orders "
        "LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS there FROM order_line "
        "GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id "
        "WHERE NOT o_ol_cnt <=> there",
    ),
    7: (
        "a line has no delivery date exactly if its order has no carrier",
        "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id FROM order_line "
        "LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id "
        "WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    8: (
        "a warehouse's w_ytd is the sum of its history",
        "SELECT w_id, w_ytd, paid FROM warehouse "
        "LEFT JOIN (SELECT h_w_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id "
        "WHERE NOT w_ytd <=> paid",
    ),
    9: (
        "a district's d_ytd is the sum of its history",
        "SELECT d_w_id, d_id, d_ytd, paid FROM district "
        "LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS h "
        "ON h_w_id = d_w_id AND h_d_id = d_id WHERE NOT d_ytd <=> paid",
    ),
    10: (
        "a customer's c_balance is the amount delivered minus the amount paid",
        "SELECT c_w_id, c_d_id, c_id, c_balance, delivered, paid FROM customer "
        "LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS delivered FROM orders JOIN order_line "
        "ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL "
        "GROUP BY o_w_id, o_d_id, o_c_id) AS o ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id "
        "LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history "
        "GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id "
        "WHERE c_balance <> COALESCE(delivered, 0) - COALESCE(paid, 0)",
    ),
    # The specification's condition holds only right after the load, since it ignores deliveries. This condition adds
    # the number of deliveries (the sum of `c_delivery_cnt`), so that it holds during a run too.
    11: (
        "a district has 2100 more orders than new orders, plus one for each delivery",
        "SELECT d_w_id, d_id, ordered, waiting, delivered FROM district "
        "LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS ordered FROM orders GROUP BY o_w_id, o_d_id) AS o "
        "ON o_w_id = d_w_id AND o_d_id = d_id "
        "LEFT JOIN (SELECT no_w_id, no_d_id, COUNT(*) AS waiting FROM new_order GROUP BY no_w_id, no_d_id) AS n "
        "ON no_w_id = d_w_id AND no_d_id = d_id "
        "LEFT JOIN (SELECT c_w_id, c_d_id, SUM(c_delivery_cnt) AS delivered FROM customer GROUP BY c_w_id, c_d_id) "
        "AS c ON c_w_id = d_w_id AND c_d_id = d_id "
        "WHERE NOT ordered - COALESCE(waiting, 0) <=> 2100 + delivered",
    ),
    12: (
        "the sum of a customer's c_balance and c_ytd_payment is the amount delivered",
        "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered FROM customer "
        "LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS delivered FROM orders JOIN order_line "
        "ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL "
        "GROUP BY o_w_id, o_d_id, o_c_id) AS o ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id "
        "WHERE c_balance + c_ytd_payment <> COALESCE(delivered, 0)",
    ),
}


class Cursor(Protocol):
    """The part of a DB-API cursor (PEP 249) that this module needs."""

    def execute(self, query: str, /) -> Any: ...
    def fetchall(self) -> Sequence[Any]: ...


def create_tables(database: str) -> list[str]:
    return [f"CREATE TABLE `{database}`.{name} ({COLUMNS[name]}) {_OPTIONS}" for name in TABLES]


def after_load(database: str) -> list[str]:
    """Return the statement to run after the load. It updates the statistics of the query planner."""
    return [f"ANALYZE TABLE {', '.join(f'`{database}`.{name}' for name in TABLES)}"]


def load_operations(warehouses: int) -> int:
    """Return how many load operations the load generator needs for this many warehouses.

    A load operation inserts one unit of the data, for example a district with its customers and orders.
    """
    return UNITS_OF_A_WAREHOUSE * warehouses + UNITS_OF_THE_ITEMS


def violations(cursor: Cursor, conditions: Iterable[int] = tuple(CONSISTENCY)) -> list[str]:
    """Check consistency conditions, given by their numbers. Return an error text for each violated condition."""
    texts = []
    for number in conditions:
        meaning, query = CONSISTENCY[number]
        # One violating row is enough: a broken database may have thousands.
        cursor.execute(f"{query} LIMIT 1")
        rows = cursor.fetchall()
        if rows:
            texts.append(
                f"condition {number} (clause 3.3.2.{number}), '{meaning}', is violated by {_row_text(rows[0])}"
            )
    return texts


def orphans(cursor: Cursor) -> list[str]:
    """Check all `REFERENCES`. Return an error text for each reference with rows that refer to a missing row."""
    texts = []
    for table, columns, parent, keys in REFERENCES:
        joined = " AND ".join(f"{key} = {column}" for key, column in zip(keys, columns, strict=True))
        listed = ", ".join(columns)
        cursor.execute(
            f"SELECT {listed} FROM {table} LEFT JOIN {parent} ON {joined} WHERE {keys[0]} IS NULL LIMIT 1"  # noqa: S608  # names of our own
        )
        rows = cursor.fetchall()
        if rows:
            texts.append(f"{table} ({listed}) has {_row_text(rows[0])}, which {parent} does not have")
    return texts


def _row_text(row: Any) -> str:
    values = row.values() if isinstance(row, dict) else row
    return "(" + ", ".join(str(value) for value in values) + ")"
