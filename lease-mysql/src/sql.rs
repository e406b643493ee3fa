//! Every statement of this dialect, in the order of the methods of `LeaseStore`. They are the same
//! text for MySQL and MariaDB.
//!
//! # Why each is atomic
//!
//! A statement runs in a transaction of its own, read committed, and its commit is on disk before its
//! answer. An InnoDB write locks its row before it compares, by the newest committed values, and
//! keeps the lock to the commit: what a `WHERE` has seen still stands when the row is written. Of two
//! at once the second sees what the first wrote. A read is one statement and sees one snapshot.
//!
//! # Why the clock is right
//!
//! [`NOW`] is the time at which the statement began: it stands still within the statement, also while
//! that waits for a lock. It is never later than the truth, so a lease granted or renewed ends
//! no later than promised, and the holder counts from before the statement was sent, which is earlier still.
//!
//! # How a write says that a row matched
//!
//! Not by the count of rows, which leaves out a row that was given the values it had, unless the
//! connection was opened with the found-rows flag. `LAST_INSERT_ID(expression)` evaluates for each row
//! written and comes back in the answer to that same statement; 0 when no row was. So one trip
//! brings the term, too.
//!
//! # Why none waits for a row
//!
//! An UPDATE waits for a locked row, for whole seconds at least, and MySQL may make two of one. So the row is
//! locked in a derived table (whose LIMIT keeps it from being merged into the UPDATE), and the UPDATE writes by join
//! only what this has locked. With SKIP LOCKED ([`take`], [`renew_many`]) a locked row is passed over: a claim is refused. With NOWAIT
//! ([`write()`]) it is an error at once (3572, on MariaDB 1205), and whoever has to have the row asks again, on a connection that
//! others could use meanwhile. The row is looked up by the primary key (`FORCE INDEX`, `STRAIGHT_JOIN`): a scan
//! would lock rows of others for a moment, who would pass over them. A row that is not there locks nothing.
//!
//! What still waits on the server: every statement for DDL and for table locks (on MariaDB not those with NOWAIT, which
//! fail at once then, too), and on MySQL a first claim for an insert of the same name that began within the same moment.

use lease_core::LeaseName;
use lease_core::store::{Holding, Identifier};

use crate::guard::{Bounds, Isolation};

/// The database's clock: milliseconds since 1970 UTC at the start of the statement. `UNIX_TIMESTAMP()` without an argument
/// is in no time zone, and no zone's offset has a fraction of a second. `UNIX_TIMESTAMP(NOW(3))`, which
/// looks simpler, is an hour off in the hour that comes twice when daylight saving ends.
const NOW: &str = "(UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(3)) DIV 1000)";

/// The first flight on each of the store's own connections, one trip. Who is there and whether it takes writes, then what the
/// statements rely on, since any of it may be otherwise by default:
///
/// - `autocommit`: with 0 a claim would be answered and then lost with the connection.
/// - read committed, read-write: elsewhere a read locks rows, or a claim fails for what others did.
/// - strict `sql_mode`: what does not fit is an error, never cut.
/// - `time_zone`: no statement reads it; so that whoever looks into the server sees UTC.
/// - `innodb_lock_wait_timeout`, `lock_wait_timeout` (DDL): whole seconds, so one is the least. Longer waits are
///   made of several.
/// - no limits of rows, of scans or of time: no statement cut short, no claim cancelled during its commit.
pub(crate) const SESSION: [&str; 5] = [
    SERVER,
    READ_ONLY,
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET NAMES utf8mb4",
    "SET SESSION autocommit = 1, time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
     innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, completion_type = 'NO_CHAIN', sql_safe_updates = 0, \
     sql_select_limit = 18446744073709551615, sql_big_selects = 1 \
     /*M!100600 , max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */",
];

/// Who is there; asked alone of a server that does not take [`SESSION`].
pub(crate) const SERVER: &str = "SELECT VERSION(), @@version_comment";

/// Whether the server takes no writes. Some users write through `read_only`, and would then write to a replica.
pub(crate) const READ_ONLY: &str = "SELECT CAST(@@read_only AS CHAR) NOT IN ('0', 'OFF') OR @@innodb_read_only /*!80000 OR @@super_read_only */";

/// On a connection out of the user's pool, in the same flight before the statement. What is set for the session is kept aside;
/// the isolation level is that of the next transaction only, and to set it is refused (1568) inside a
/// transaction that somebody left open.
pub(crate) const BORROW: [&str; 4] = [
    "SET @lease_sql_mode = @@SESSION.sql_mode, @lease_lock_wait = @@SESSION.innodb_lock_wait_timeout, \
     @lease_ddl_wait = @@SESSION.lock_wait_timeout, @lease_select_limit = @@SESSION.sql_select_limit, \
     @lease_safe_updates = @@SESSION.sql_safe_updates, @lease_big_selects = @@SESSION.sql_big_selects, \
     @lease_results = @@SESSION.character_set_results",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 1, \
     lock_wait_timeout = 1, sql_select_limit = 18446744073709551615, sql_safe_updates = 0, sql_big_selects = 1, \
     character_set_results = utf8mb4",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "START TRANSACTION",
];

/// And behind it.
pub(crate) const RETURN: [&str; 3] = [
    "COMMIT AND NO CHAIN NO RELEASE",
    "SET SESSION sql_mode = @lease_sql_mode, innodb_lock_wait_timeout = @lease_lock_wait, \
     lock_wait_timeout = @lease_ddl_wait, sql_select_limit = @lease_select_limit, \
     sql_safe_updates = @lease_safe_updates, sql_big_selects = @lease_big_selects, \
     character_set_results = @lease_results",
    "SET @lease_sql_mode = NULL, @lease_lock_wait = NULL, @lease_ddl_wait = NULL, @lease_select_limit = NULL, \
     @lease_safe_updates = NULL, @lease_big_selects = NULL, @lease_results = NULL, @lease_now = NULL",
];

/// Instead of [`RETURN`], for a flight that the server broke off.
pub(crate) const UNDO: [&str; 3] = ["ROLLBACK AND NO CHAIN NO RELEASE", RETURN[1], RETURN[2]];

/// Writes the row of `:name` if `condition` holds, which is judged on the row when it is locked. (A row for which it does not hold is
/// locked as well, to the statement's end.) `locked` says what becomes of the statement when another has the row.
fn update(table: &Identifier, condition: &str, locked: &str, set: &str) -> String {
    format!(
        "UPDATE (SELECT name FROM `{table}` FORCE INDEX (PRIMARY) WHERE name = :name AND {condition}
                 LIMIT 1 FOR UPDATE {locked}) AS found
         STRAIGHT_JOIN `{table}` AS lease ON lease.name = found.name
         SET {set}"
    )
}

/// A write that must have the row: an error at once when another has it.
fn write(table: &Identifier, condition: &str, set: &str) -> String {
    update(table, condition, "NOWAIT", set)
}

/// A claim on a row that exists, unless another has it locked: writes what a granted
/// claim writes, and `more`. The answer's id is the new term; 0 when there was no such row.
///
/// A term of 9223372036854775807 has no successor: the sum is out of range (1690) and nothing is changed.
fn take(table: &Identifier, condition: &str, more: &str) -> String {
    let set = format!(
        "lease.holder = :holder, lease.instance = :instance, lease.process = :process,
             lease.address = :address, lease.version = :version, lease.term = LAST_INSERT_ID(lease.term + 1),
             lease.claimed_at_ms = {NOW}, lease.renewed_at_ms = {NOW}, lease.expires_at_ms = {NOW} + :ttl,
             lease.ttl_ms = :ttl{more}"
    );
    update(table, condition, "SKIP LOCKED", &set)
}

/// A claim on a name without a row. The count of rows is 1 when granted, 0 when there is a row. One that another has inserted and not yet
/// committed, or has locked, is an error at once (3572, on MariaDB 1205), and one that comes in between is a duplicate
/// key (1062): all of them are an answer as well, the name is taken. (`INSERT IGNORE` would hide every other error, too, and
/// `ON DUPLICATE KEY UPDATE` waits for a row that is locked.) MySQL locks nothing if the first look finds the row.
fn take_new(table: &Identifier, columns: &str, values: &str) -> String {
    format!(
        "INSERT INTO `{table}` (name, holder, instance, process, address, version,
                                term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms{columns})
         SELECT :name, :holder, :instance, :process, :address, :version, 1, {NOW}, {NOW}, {NOW} + :ttl, :ttl{values}
         FROM (SELECT 1) AS one WHERE NOT EXISTS (SELECT 1 FROM `{table}` WHERE name = :name)
             AND NOT EXISTS (SELECT 1 FROM `{table}` FORCE INDEX (PRIMARY) WHERE name = :name FOR UPDATE NOWAIT)"
    )
}

/// `migrate`: the table in full. Safe beside other processes, also those that know nothing of [`MIGRATION_LOCK`].
pub(crate) fn create_table(table: &Identifier) -> String {
    include_str!("schema.sql").trim_end().replacen("leases", &format!("`{table}`"), 1)
}

/// `migrate`: one column that a later version brought, in the words of `schema.sql`. Every DDL
/// statement commits at once, so each is a step of its own that may find itself done (1060).
pub(crate) fn add_column(table: &Identifier, definition: &str) -> String {
    format!("ALTER TABLE `{table}` ADD COLUMN {definition}")
}

/// `migrate`: waits a second for the advisory lock, which is the server's, so its name has the database in it. 1 when had.
pub(crate) const MIGRATION_LOCK: &str =
    "SELECT GET_LOCK(LEFT(SHA2(CONCAT('lease ', DATABASE(), '.', :table), 256), 40), 1)";

/// `migrate`: gives it back.
pub(crate) const MIGRATION_UNLOCK: &str =
    "SELECT RELEASE_LOCK(LEFT(SHA2(CONCAT('lease ', DATABASE(), '.', :table), 256), 40))";

/// `migrate` and `check`: what the name stands for. No row for a table that this user may not see.
pub(crate) const TABLE_KIND: &str = "SELECT TABLE_TYPE, COALESCE(ENGINE, '') FROM information_schema.TABLES
     WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :table";

/// `migrate` and `check`: the unique keys there are, a row for each of their columns.
pub(crate) const TABLE_KEYS: &str = "SELECT INDEX_NAME, COALESCE(COLUMN_NAME, ''), SUB_PART IS NULL
     FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :table AND NON_UNIQUE = 0
     ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX";

/// `migrate` and `check`: the columns there are.
pub(crate) const TABLE_COLUMNS: &str =
    "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COALESCE(COLLATION_NAME, '')
     FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :table ORDER BY ORDINAL_POSITION";

/// `migrate` and `check`: a statement on the table that reads nothing, for the server's own word on whether it is there and may be read.
pub(crate) fn touch(table: &Identifier) -> String {
    format!("SELECT 1 FROM `{table}` LIMIT 0")
}

/// `check`: whether commits last.
pub(crate) const SERVER_STATE: &str =
    "SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, @@binlog_format";

/// `claim`, first: for a name that has a row. Of two at once the second finds it locked, or unexpired.
pub(crate) fn claim(table: &Identifier) -> String {
    take(table, &format!("expires_at_ms <= {NOW}"), "")
}

/// `claim`, second: for a name that has none.
pub(crate) fn claim_new(table: &Identifier) -> String {
    take_new(table, "", "")
}

/// `renew`. The id is 1, and 2 for a term that was asked to step down.
pub(crate) fn renew(table: &Identifier) -> String {
    write(
        table,
        &format!("holder = :holder AND expires_at_ms > {NOW}"),
        &format!(
            "lease.expires_at_ms = {NOW} + :ttl,
             lease.renewed_at_ms = {NOW} + 0 * LAST_INSERT_ID(1 + (lease.resign_term = lease.term))"
        ),
    )
}

/// How many leases one UPDATE of [`renew_many`] names. From a thousand on MariaDB turns a list into a table and joins it.
const LEASES_PER_UPDATE: usize = 500;

/// `renew_many`, one flight of statements, each a transaction of its own (on a pool of the user's all of them one). The last is the answer: the leases that are held by those who asked,
/// *and* expire when this flight would have them expire. That is what a holder needs to know, whoever has written it.
/// The values are written as digits; a list has no place for parameters.
pub(crate) fn renew_many(table: &Identifier, leases: &[Holding], ttl_ms: i64) -> Vec<String> {
    let pairs = |leases: &[Holding]| {
        let pair =
            |lease: &Holding| format!("({}, {})", hex(lease.name.as_str()), hex(lease.holder.hex().as_str()));
        leases.iter().map(pair).collect::<Vec<_>>().join(", ")
    };
    let update = |leases: &[Holding]| {
        format!(
            "UPDATE (SELECT name FROM `{table}` FORCE INDEX (PRIMARY)
                     WHERE (name, holder) IN ({}) AND expires_at_ms > @lease_now
                     ORDER BY name LIMIT {LEASES_PER_UPDATE} FOR UPDATE SKIP LOCKED) AS found
             STRAIGHT_JOIN `{table}` AS lease ON lease.name = found.name
             SET lease.expires_at_ms = @lease_now + {ttl_ms}, lease.renewed_at_ms = @lease_now",
            pairs(leases)
        )
    };
    let answer = format!(
        "SELECT name, holder, resign_term = term FROM `{table}` FORCE INDEX (PRIMARY)
         WHERE (name, holder) IN ({}) AND expires_at_ms = @lease_now + {ttl_ms} AND renewed_at_ms = @lease_now",
        pairs(leases)
    );
    let mut flight = vec![format!("SET @lease_now = {NOW}")];
    flight.extend(leases.chunks(LEASES_PER_UPDATE).map(update));
    flight.push(answer);
    flight
}

/// `verify`.
pub(crate) fn verify(table: &Identifier) -> String {
    format!("SELECT term FROM `{table}` WHERE name = :name AND holder = :holder AND expires_at_ms > {NOW}")
}

/// `release`: writes 0 over 0 when repeated, and says so again.
pub(crate) fn release(table: &Identifier) -> String {
    write(table, "holder = :holder", "lease.expires_at_ms = 0 * LAST_INSERT_ID(lease.term)")
}

/// `claim_observed`: holder and expiry both, since a renewal moves only the expiry and a claim within
/// the same millisecond only the holder.
pub(crate) fn claim_observed(table: &Identifier) -> String {
    take(table, "holder = :seen_holder AND expires_at_ms = :seen_expiry", "")
}

/// The columns of a `LeaseRow`, in the order in which `row::clock_and_lease` reads them.
const COLUMNS: &str = "name, holder, instance, process, address, version, term, claimed_at_ms, renewed_at_ms,
                       expires_at_ms, ttl_ms, resign_term, slot_ms, unfinished_slot_ms, rerun_slot_ms";

/// `inspect`: the outer join brings the clock when there is no row.
pub(crate) fn inspect(table: &Identifier) -> String {
    format!("SELECT {NOW}, {COLUMNS} FROM (SELECT 1) AS one LEFT JOIN `{table}` ON name = :name")
}

/// `list`: as [`inspect`]. The key is of bytes, and so is its order. What begins with a prefix is what lies between it and it with a byte behind
/// that UTF-8 does not have. (LIKE would read signs in the prefix.)
pub(crate) fn list(table: &Identifier) -> String {
    format!(
        "SELECT {NOW}, page.* FROM (SELECT 1) AS one LEFT JOIN (
             SELECT {COLUMNS} FROM `{table}`
             WHERE name > :after AND name >= :prefix AND name < CONCAT(:prefix, X'FF')
             ORDER BY name LIMIT :limit
         ) AS page ON TRUE ORDER BY page.name"
    )
}

/// `clear`.
pub(crate) fn clear(table: &Identifier) -> String {
    let as_seen = "holder = :seen_holder AND expires_at_ms = :seen_expiry";
    write(table, as_seen, "lease.expires_at_ms = 0 * LAST_INSERT_ID(lease.term)")
}

/// `resign`: for a released or expired term too; it changes nothing then that anybody reads.
pub(crate) fn resign(table: &Identifier) -> String {
    write(table, "term = :term", "lease.resign_term = LAST_INSERT_ID(lease.term)")
}

/// `claim_slot`, first: what its refusals and the instant given up are judged by.
pub(crate) fn slot_state(table: &Identifier) -> String {
    format!(
        "SELECT {NOW}, term, expires_at_ms, slot_ms, unfinished_slot_ms, rerun_slot_ms
         FROM (SELECT 1) AS one LEFT JOIN `{table}` ON name = :name"
    )
}

/// `claim_slot`, second: only on the term that [`slot_state`] read and while the name is free. A slot column changes with the
/// term, or when a round ends; what was judged still stands but for the latter, which is compared as well.
pub(crate) fn claim_slot(table: &Identifier) -> String {
    take(
        table,
        &format!(
            "term = :seen_term AND slot_ms = :seen_slot AND unfinished_slot_ms = :seen_unfinished AND expires_at_ms <= {NOW}"
        ),
        ", lease.slot_ms = :slot, lease.unfinished_slot_ms = :slot",
    )
}

/// `claim_slot`, second, for a name that had no row.
pub(crate) fn claim_slot_new(table: &Identifier) -> String {
    take_new(table, ", slot_ms, unfinished_slot_ms", ", :slot, :slot")
}

/// `finish_slot`, first step. `:passed` is 0 when no instant was passed over.
pub(crate) fn finish_slot(table: &Identifier) -> String {
    let set = format!(
        "lease.expires_at_ms = 0 * LAST_INSERT_ID(lease.term), lease.unfinished_slot_ms = 0,
             lease.slot_ms = CASE WHEN :passed > lease.slot_ms AND :passed <= {NOW} THEN :passed ELSE lease.slot_ms END"
    );
    write(table, "holder = :holder", &set)
}

/// `finish_slot`, second step, for a lease that was lost: the claim that replaced it may have been
/// for a later slot, which does not match, or for this slot's rerun, for which the end counts as well.
pub(crate) fn record_end(table: &Identifier) -> String {
    write(table, "unfinished_slot_ms = :slot", "lease.unfinished_slot_ms = 0 * LAST_INSERT_ID(lease.term)")
}

/// `unfinished_slots`. A name given twice comes back once.
pub(crate) fn unfinished_slots(table: &Identifier, names: &[LeaseName]) -> String {
    let names: Vec<String> = names.iter().map(|name| hex(name.as_str())).collect();
    format!(
        "SELECT name, unfinished_slot_ms, term FROM `{table}`
         WHERE name IN ({})
           AND unfinished_slot_ms <> 0 AND unfinished_slot_ms = slot_ms AND rerun_slot_ms < slot_ms
           AND expires_at_ms <= {NOW}",
        names.join(", ")
    )
}

/// `claim_rerun`.
pub(crate) fn claim_rerun(table: &Identifier) -> String {
    take(
        table,
        &format!(
            "term = :term AND unfinished_slot_ms = :slot AND slot_ms = :slot AND rerun_slot_ms < :slot
                 AND expires_at_ms <= {NOW}"
        ),
        ", lease.rerun_slot_ms = :slot",
    )
}

/// `last_slot`.
pub(crate) fn last_slot(table: &Identifier) -> String {
    format!("SELECT slot_ms FROM `{table}` WHERE name = :name")
}

/// The first flight of a guarded transaction. What is set for its length is kept aside, and set back by [`COMMIT_GUARDED`]'s flight or
/// that of a rollback:
///
/// - `autocommit = 0`: what comes behind a statement that commits implicitly is in a transaction, too, and nobody commits that.
/// - the bounds, never looser than what was there. 0 is no limit to the two of them that can be 0. (MySQL takes no sum of its own
///   numbers for one without being told so.)
///
/// The level is that of the next transaction only; to set it is refused (1568) inside one that somebody left open. `mark` is
/// the name of a savepoint, by which the transaction is known again, and of a lock of the session's, by which the session is: other
/// servers' sessions can have its number.
pub(crate) fn begin_guarded(isolation: Isolation, bounds: &Bounds, mark: &str) -> Vec<String> {
    let seconds = |setting: &str, seconds: Option<u64>| {
        seconds.map_or_else(String::new, |seconds| {
            format!(", {setting} = CAST(LEAST(@@SESSION.{setting}, {seconds}) AS UNSIGNED)")
        })
    };
    let limits = bounds.statement_ms().map_or_else(String::new, |ms| {
        let least = |setting: &str, limit: &str| {
            format!("IF(@@SESSION.{setting} = 0, {limit}, LEAST(@@SESSION.{setting}, {limit}))")
        };
        let mariadb = least("max_statement_time", &format!("{}.{:03}", ms / 1000, ms % 1000));
        let mysql = least("max_execution_time", &ms.to_string());
        format!(
            " /*M!100600 , max_statement_time = {mariadb} */ \
             /*!80000 , max_execution_time = CAST({mysql} AS UNSIGNED) */"
        )
    });
    let (idle, unread) = (bounds.idle_seconds(), bounds.unread_seconds());
    let set = [
        "SET SESSION autocommit = 0".to_owned(),
        seconds("wait_timeout", idle),
        seconds("net_read_timeout", idle),
        seconds("net_write_timeout", unread),
        limits,
    ];
    vec![
        "SET @lease_autocommit = @@SESSION.autocommit, @lease_idle = @@SESSION.wait_timeout, \
         @lease_sending = @@SESSION.net_read_timeout, @lease_unread = @@SESSION.net_write_timeout, \
         @lease_lock_wait = NULL, @lease_snapshot = NULL /*M!100600 , @lease_statement = @@SESSION.max_statement_time */ \
         /*!80000 , @lease_statement = @@SESSION.max_execution_time */"
            .to_owned(),
        set.concat(),
        format!("SET TRANSACTION ISOLATION LEVEL {}, READ WRITE", isolation.level()),
        "START TRANSACTION".to_owned(),
        format!("SAVEPOINT {mark}"),
        format!("SELECT GET_LOCK('{mark}', 0) LIMIT 1"),
    ]
}

/// The last of that flight: a row when the lease is held. It locks nothing. (Every read with a LIMIT, for `sql_select_limit` can be 0.)
pub(crate) fn guard(table: &Identifier) -> String {
    format!("{} LIMIT 1", verify(table))
}

/// Asked after a statement that failed: with what number, and, in the answer's flags, whether a transaction is open.
pub(crate) const WHAT_FAILED: &str = "SHOW ERRORS LIMIT 1";

/// A row when the lease is held, which no claim changes then until the transaction has ended; else error 1242, since a subquery has two
/// rows, so that a `COMMIT` behind it in the same text is not run. It reads what is newest, at every level, and waits for whoever writes the row.
pub(crate) fn fence(table: &Identifier) -> String {
    format!(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM `{table}` WHERE name = :name AND holder = :holder
                                  AND expires_at_ms > {NOW} LOCK IN SHARE MODE)
                THEN 1 ELSE (SELECT 1 UNION ALL SELECT 2) END LIMIT 1"
    )
}

/// The last flight, of which the server runs nothing behind what fails: a short wait for the row and no limit that could cut the
/// commit short; that this is still the transaction that was begun (1305 when not), before the fence, so that a transaction that was ended
/// is never told to be lost; the fence; the commit. With `innodb_snapshot_isolation` the fence would fail (1020) at repeatable read for
/// every renewal since the beginning.
pub(crate) fn commit_guarded(fence: Option<String>, mark: &str) -> Vec<String> {
    let mut flight = vec![
        "SET @lease_lock_wait = COALESCE(@lease_lock_wait, @@SESSION.innodb_lock_wait_timeout) \
         /*M!101108 , @lease_snapshot = COALESCE(@lease_snapshot, @@SESSION.innodb_snapshot_isolation) */"
            .to_owned(),
        "SET SESSION innodb_lock_wait_timeout = 1 /*M!101108 , innodb_snapshot_isolation = 0 */ \
         /*M!100600 , max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */"
            .to_owned(),
        format!("RELEASE SAVEPOINT {mark}"),
        format!("SAVEPOINT {mark}"),
    ];
    flight.extend(fence);
    flight.push(COMMIT_GUARDED.to_owned());
    flight.extend(set_back(mark));
    flight
}

/// The statement of [`commit_guarded`] that commits.
pub(crate) const COMMIT_GUARDED: &str = "COMMIT AND NO CHAIN NO RELEASE";

/// Undoes all of the transaction that was begun; 1305 when it is another one that is open, or none.
pub(crate) fn undo_guarded(mark: &str) -> String {
    format!("ROLLBACK TO SAVEPOINT {mark}")
}

/// Undoes what is open, whatever it is.
pub(crate) fn roll_back_guarded(mark: &str) -> Vec<String> {
    let mut flight = vec!["ROLLBACK AND NO CHAIN NO RELEASE".to_owned()];
    flight.extend(set_back(mark));
    flight
}

/// The session as it was, and then its lock.
fn set_back(mark: &str) -> [String; 3] {
    [
        "SET SESSION autocommit = @lease_autocommit, wait_timeout = @lease_idle, net_read_timeout = @lease_sending, \
         net_write_timeout = @lease_unread, \
         innodb_lock_wait_timeout = CAST(COALESCE(@lease_lock_wait, @@SESSION.innodb_lock_wait_timeout) AS UNSIGNED) \
         /*M!101108 , innodb_snapshot_isolation = CAST(COALESCE(@lease_snapshot, @@SESSION.innodb_snapshot_isolation) AS UNSIGNED) */ \
         /*M!100600 , max_statement_time = @lease_statement */ /*!80000 , max_execution_time = @lease_statement */"
            .to_owned(),
        "SET @lease_autocommit = NULL, @lease_idle = NULL, @lease_sending = NULL, @lease_unread = NULL, \
         @lease_lock_wait = NULL, @lease_snapshot = NULL, @lease_statement = NULL"
            .to_owned(),
        format!("DO RELEASE_LOCK('{mark}')"),
    ]
}

/// Ends the session that has the lock, and with it its transaction; error 1094 when none has, for a lock outlives its session's
/// transaction. `KILL QUERY` would leave the transaction open.
pub(crate) fn end_guarded(mark: &str) -> String {
    format!("KILL CONNECTION IS_USED_LOCK('{mark}')")
}

/// Bytes as a literal that has no quotes, needs no escape, and means the same in every character set and SQL mode.
pub(crate) fn hex(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref();
    let mut literal = String::with_capacity(2 * bytes.len() + 3);
    literal.push_str("X'");
    for byte in bytes {
        literal
            .extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])));
    }
    literal.push('\'');
    literal
}
