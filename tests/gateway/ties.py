"""A database whose columns tell of protected ones, `p_*`: by DEFAULT, CHECK, keys and generation."""

from __future__ import annotations

from tests.gateway.corpus import NAMES, SALARIES

NAME, OTHER = (name.decode() for name in NAMES[:2])
SCHEMA = f"""
CREATE DATABASE ties;
CREATE TABLE ties.defaults (id INT PRIMARY KEY, p_name VARCHAR(30), copy VARCHAR(30) DEFAULT (p_name));
INSERT INTO ties.defaults (id, p_name, copy) VALUES (1, '{NAME}', '-');
CREATE TABLE ties.checks (id INT PRIMARY KEY, p_salary INT, bonus INT, initial CHAR(1), p_name VARCHAR(30),
  CHECK (bonus <= p_salary), CHECK (initial = LEFT(p_name, 1)));
INSERT INTO ties.checks VALUES (1, {SALARIES[0]}, 0, '{NAME[0]}', '{NAME}');
CREATE TABLE ties.sums (id INT PRIMARY KEY, p_salary INT, bonus INT, total INT AS (p_salary + bonus) STORED,
  first VARCHAR(30), p_last VARCHAR(30), whole VARCHAR(70) AS (CONCAT(first, ' ', p_last)));
INSERT INTO ties.sums (id, p_salary, bonus, first, p_last) VALUES (1, {SALARIES[0]}, 0, 'first', '{NAME}');
CREATE TABLE ties.chains (id INT PRIMARY KEY, p_salary INT, bonus BIGINT, half INT AS (bonus DIV 2),
  CHECK (half <= p_salary));
INSERT INTO ties.chains (id, p_salary, bonus) VALUES (1, {SALARIES[0]}, 0);
CREATE TABLE ties.grades (grade INT PRIMARY KEY);
CREATE TABLE ties.graded (id INT PRIMARY KEY, p_salary INT, grade INT, total BIGINT AS (grade + p_salary),
  FOREIGN KEY (grade) REFERENCES ties.grades (grade) ON UPDATE CASCADE);
INSERT INTO ties.grades VALUES (1);
INSERT INTO ties.graded (id, p_salary, grade) VALUES (1, {SALARIES[0]}, 1);
CREATE TABLE ties.clocks (id INT PRIMARY KEY, note INT, p_until DATETIME NOT NULL,
  at DATETIME ON UPDATE CURRENT_TIMESTAMP, CHECK (at <= p_until));
INSERT INTO ties.clocks VALUES (1, 0, '2100-01-01', NULL);
CREATE TABLE ties.floats (id INT PRIMARY KEY, p_float FLOAT);
INSERT INTO ties.floats VALUES (1, 1.1);
CREATE TABLE ties.mixed (id INT PRIMARY KEY, p_c VARCHAR(30));
CREATE TABLE ties.Mixed (id INT PRIMARY KEY, a INT);
INSERT INTO ties.mixed VALUES (1, '{NAME}');
CREATE TABLE ties.View_too (id INT PRIMARY KEY);
CREATE VIEW ties.view_too AS SELECT p_c AS x FROM ties.mixed LIMIT 10;
CREATE TABLE ties.secrets (hidden VARCHAR(30) PRIMARY KEY);
INSERT INTO ties.secrets VALUES ('{NAME}'), ('{OTHER}');
CREATE TABLE ties.keyed (id INT PRIMARY KEY, tied VARCHAR(30), open VARCHAR(30), g VARCHAR(70) AS (CONCAT(tied, open)),
  FOREIGN KEY (tied) REFERENCES ties.secrets (hidden));
INSERT INTO ties.keyed (id, tied, open) VALUES (1, '{NAME}', 'a'), (2, '{OTHER}', 'b');
CREATE TABLE ties.bits (id INT PRIMARY KEY, p_bits BIT(64), p_padded BIGINT(19) ZEROFILL, p_year YEAR);
INSERT INTO ties.bits VALUES (1, {SALARIES[0]}, {SALARIES[0]}, 0);
CREATE TABLE ties.addresses (id INT PRIMARY KEY, p_text VARCHAR(45) CHARACTER SET latin1, p_bytes VARBINARY(16),
  address INET6, code UUID, bits BIT(8));
INSERT INTO ties.addresses VALUES (1, 'Zoë', INET6_ATON('::1'), '::', UUID(), 1);
CREATE TABLE ties.sized (id INT PRIMARY KEY, p_salary INT, p_name VARCHAR(30)) ENGINE = MyISAM;
INSERT INTO ties.sized VALUES (1, 0, '{NAME}'), (2, {SALARIES[0]}, '{NAME}');
CREATE TABLE ties.hours (id INT PRIMARY KEY, note INT, p_from TIME, p_day DATETIME,
  day VARCHAR(10) AS (DAYNAME(p_from)) VIRTUAL, CHECK (p_from <> p_day));
INSERT INTO ties.hours (id, note, p_from, p_day) VALUES (1, 0, '10:00:00', '2100-01-01');
CREATE TABLE ties.moments (id INT PRIMARY KEY, note INT, p_at TIMESTAMP NULL, p_day DATETIME,
  hour INT AS (HOUR(p_at)) VIRTUAL, p_epoch INT, shown INT AS (HOUR(FROM_UNIXTIME(p_epoch))) VIRTUAL,
  CHECK (p_at > '2024-03-05 12:00:00'));
INSERT INTO ties.moments (id, note, p_at, p_day) VALUES (1, 0, '2024-03-05 14:23:00', '2024-03-05 15:00:00');
CREATE TABLE ties.numbered (p_id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(30) UNIQUE, copy INT);
INSERT INTO ties.numbered VALUES (1, '{NAME}', 0);
CREATE SEQUENCE ties.numbers;
CREATE TABLE ties.sequenced (id INT PRIMARY KEY, p_number BIGINT DEFAULT NEXTVAL(ties.numbers))
"""


def column(table: str, name: str, more: str = "") -> str:
    return f'[[columns]]\ndatabase = "ties"\ntable = "{table}"\ncolumn = "{name}"\n{more}'


COLUMNS = (
    column("*", "p_*")
    + column("keyed", "open", 'predicates = "allow"\n')
    + column("secrets", "hidden", 'predicates = "refuse"\n')
)
