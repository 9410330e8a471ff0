//! What is no query: transactions, settings, SHOW, USE, and the protocol's own commands.

use super::{Generator, SLOTS};
use crate::command::Command;

const INIT_DB: u8 = 0x02;
const PING: u8 = 0x0E;
const RESET_CONNECTION: u8 = 0x1F;

impl Generator {
    pub(super) fn session_command(&mut self) -> Command {
        let text = match self.rng.weighted(&[30, 20, 25, 15, 10]) {
            0 => self.transaction(),
            1 => self.setting(),
            2 => self.show(),
            3 => self.use_database(),
            _ => self.server_table(),
        };
        Command::Query(text.into_bytes())
    }

    pub(super) fn statement_command(&mut self) -> Command {
        let slot = self.rng.below(SLOTS);
        let raw = |command, body: &[u8]| Command::Raw { command, body: body.to_vec() };
        match self.rng.below(6) {
            0 => {
                self.hit("command: PING");
                raw(PING, b"")
            }
            1 => {
                self.hit("command: INIT_DB");
                let name = self.database.clone();
                raw(INIT_DB, name.as_bytes())
            }
            2 => {
                self.hit("command: RESET_CONNECTION");
                self.prepared = Default::default();
                raw(RESET_CONNECTION, b"")
            }
            3 => {
                self.hit("command: STMT_RESET");
                Command::Reset { slot }
            }
            _ => {
                self.hit("command: STMT_CLOSE");
                self.prepared[slot] = None;
                Command::Close { slot }
            }
        }
    }

    fn transaction(&mut self) -> String {
        self.hit("transaction");
        const STATEMENTS: &[&str] = &[
            "BEGIN",
            "START TRANSACTION",
            "ROLLBACK",
            "ROLLBACK",
            "COMMIT",
            "SAVEPOINT s1",
            "SAVEPOINT s1",
            "ROLLBACK TO SAVEPOINT s1",
            "START TRANSACTION READ WRITE",
            "RELEASE SAVEPOINT s1",
            "SET autocommit = 0",
            "SET autocommit = 1",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "ROLLBACK WORK",
            "COMMIT AND NO CHAIN",
        ];
        (*self.rng.pick(STATEMENTS)).into()
    }

    fn setting(&mut self) -> String {
        self.hit("SET");
        const STATEMENTS: &[&str] = &[
            "SET NAMES utf8mb4",
            "SET NAMES utf8",
            // Else a value of any one row of a group may be asked for, and which one that is follows an index's order.
            "SET sql_mode = 'STRICT_TRANS_TABLES,ONLY_FULL_GROUP_BY'",
            "SET SESSION sql_mode = 'only_full_group_by'",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET @@session.group_concat_max_len = 2048",
            "SET time_zone = '+00:00'",
            // Of each half of the hours one becomes midnight.
            "SET time_zone = '+09:00'",
            "SET time_zone = '+10:00'",
            "SET time_zone = '-11:00'",
            "SET SESSION sql_select_limit = DEFAULT",
            "SET character_set_results = utf8mb4",
            "SET sql_mode = 'ONLY_FULL_GROUP_BY'",
            "SET SESSION wait_timeout = 600",
            "SET lock_wait_timeout = 5",
            "SET sql_safe_updates = 0",
            "SET collation_connection = utf8mb4_bin",
            "SET foreign_key_checks = 1",
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        ];
        (*self.rng.pick(STATEMENTS)).into()
    }

    fn show(&mut self) -> String {
        self.hit("SHOW");
        const STATEMENTS: &[&str] = &[
            "SHOW TABLES",
            "SHOW WARNINGS",
            "SHOW ERRORS",
            "SHOW COLUMNS FROM people",
            "SHOW FULL COLUMNS FROM notes",
            "SHOW INDEX FROM orders",
            "SHOW CREATE TABLE notes",
            "SHOW VARIABLES LIKE 'autocommit'",
            "SHOW COUNT(*) WARNINGS",
            "SHOW DATABASES LIKE 'other%'",
            "DESCRIBE people",
            "SHOW FULL TABLES",
            "SHOW STATUS LIKE 'Ssl_cipher'",
            "SHOW COLLATION LIKE 'utf8mb4_bin'",
            "SHOW CREATE TABLE people",
            "SHOW ENGINES",
        ];
        (*self.rng.pick(STATEMENTS)).into()
    }

    fn use_database(&mut self) -> String {
        self.hit("USE");
        // The next command comes back from there.
        self.is_elsewhere = self.rng.percent(20);
        if self.is_elsewhere { format!("USE other_{}", self.database) } else { format!("USE {}", self.database) }
    }

    /// Columns that do not tell two servers apart.
    fn server_table(&mut self) -> String {
        self.hit("information_schema");
        let database = &self.database;
        match self.rng.below(5) {
            0 => format!("SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}'"),
            1 => format!(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = '{database}' AND table_name = 'notes'"
            ),
            2 => "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name".into(),
            3 => "SELECT COUNT(*) FROM information_schema.keywords".into(),
            _ => {
                format!("SELECT column_name FROM information_schema.key_column_usage WHERE table_schema = '{database}'")
            }
        }
    }
}
