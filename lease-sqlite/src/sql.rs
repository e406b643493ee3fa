//! Every statement of this dialect, in the order of the methods of `LeaseStore`.
//!
//! # Why each is atomic
//!
//! SQLite has one writer per file. Every write below runs between [`BEGIN`], which takes the write
//! lock before anything is read, and [`COMMIT`], which gives it back when the change is on disk. So what
//! a `WHERE`, or a read before it, has seen still stands when the statement writes. Several statements
//! that happen to wait in line share one such transaction, as if they had followed on each other at
//! once; nobody is answered before the commit, and if it fails none of them has happened.
//!
//! A plain `BEGIN` would read first and take the lock at its first write: when another writer came
//! between, SQLite refuses that with `SQLITE_BUSY_SNAPSHOT` at once, whatever the busy timeout is.
//!
//! A read is one statement outside any transaction, and sees one snapshot of the file.
//!
//! # Why the clock is right
//!
//! [`NOW`] is read by the statement itself, which begins when the lock has been had, however long it
//! was waited for. It keeps one value for one step of a statement: all that a write changes is changed
//! in its first step, and each row of a `SELECT` has the time at which that row was read. The process may be paused between that
//! reading and the commit for any time: the lock is held meanwhile, so nobody else acts on the row,
//! and the holder counts its deadline from before the statement was sent, so a late answer only makes
//! it give up earlier.

use crate::options::Table;

/// The database's clock: milliseconds since 1970 UTC. SQLite keeps time as a whole number of
/// milliseconds, `unixepoch('subsec')` (from 3.42) divides it by 1000.0, and rounding gives the same
/// number back. There is no time zone in it. Before 3.42 it is NULL and every comparison with it false.
const NOW: &str = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";

/// Opens the transaction of all writes, and waits for the lock.
pub(crate) const BEGIN: &str = "BEGIN IMMEDIATE";

/// Ends it. With a rollback journal it may be refused as busy, while others read; the transaction is
/// open still and must be undone then.
pub(crate) const COMMIT: &str = "COMMIT";

/// Undoes it.
pub(crate) const ROLLBACK: &str = "ROLLBACK";

/// Said on every connection before its first statement; defaults differ between builds of SQLite.
///
/// - `trusted_schema`: a file from elsewhere may not call functions from its constraints.
/// - `mmap_size`: a file cut short by somebody else is an error then, not a signal that ends the process.
/// - `synchronous = EXTRA`: each commit is on disk before the answer. In WAL mode it is the same as
///   `FULL`; with a rollback journal the folder is synced too, or a power cut soon after the commit
///   could bring the journal back, and with it the state before the commit.
/// - `fullfsync`: on macOS `fsync` leaves data in the drive's cache. Elsewhere without meaning.
pub(crate) const SESSION: [&str; 5] = [
    "PRAGMA trusted_schema = OFF",
    "PRAGMA mmap_size = 0",
    "PRAGMA synchronous = EXTRA",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
];

/// Read back, for an unknown pragma value is ignored without an error: 3 is `EXTRA`.
pub(crate) const SYNCHRONOUS: &str = "PRAGMA synchronous";

/// `delete`, `truncate`, `persist` and `wal` survive a crash; `memory` and `off` do not.
pub(crate) const JOURNAL_MODE: &str = "PRAGMA journal_mode";

/// Said on a file without any page, and on no other: the mode belongs to the file and to all its users.
pub(crate) const USE_WAL: &str = "PRAGMA journal_mode = WAL";

/// 0 for a file that nobody has written to yet.
pub(crate) const PAGE_COUNT: &str = "PRAGMA page_count";

/// Another number than the last time, on the same connection, when others have committed between: another connection of
/// this process or of any. Says nothing of what they changed.
pub(crate) const DATA_VERSION: &str = "PRAGMA data_version";

/// `UTF-8`, `UTF-16le` or `UTF-16be`.
pub(crate) const ENCODING: &str = "PRAGMA encoding";

/// Said on the connection that reads.
pub(crate) const READ_ONLY: &str = "PRAGMA query_only = ON";

/// The columns that a granted claim writes on a row that exists. In `DO UPDATE`, as in `UPDATE`, a
/// bare column is the row as it was, so `term + 1` cannot miss another claim.
///
/// A term of 9223372036854775807 has no successor: the sum becomes a REAL, which the STRICT table
/// refuses, and nothing is changed.
fn take() -> String {
    format!(
        "holder = :holder, instance = :instance, process = :process, address = :address, version = :version,
         term = term + 1, claimed_at_ms = {NOW}, renewed_at_ms = {NOW}, expires_at_ms = {NOW} + :ttl, ttl_ms = :ttl"
    )
}

/// `migrate`: the table in full. Safe beside other processes: in one transaction with the look at
/// which columns are missing and the [`add_column`] for each.
pub(crate) fn create_table(table: &Table) -> String {
    include_str!("schema.sql").trim_end().replacen("leases", &table.to_string(), 1)
}

/// `migrate`: one column that a later version brought, in the words of `schema.sql`.
pub(crate) fn add_column(table: &Table, definition: &str) -> String {
    format!("ALTER TABLE {table} ADD COLUMN {definition}")
}

/// `migrate` and `check`: what the name stands for (`table`, `view`, `virtual`), and whether it is STRICT.
pub(crate) const TABLE_KIND: &str =
    "SELECT type, strict FROM pragma_table_list WHERE schema = 'main' AND name = :table COLLATE NOCASE";

/// `migrate` and `check`: the columns there are.
pub(crate) const TABLE_COLUMNS: &str =
    "SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo(:table) ORDER BY cid";

/// `migrate` and `check`: how the columns of the primary key are compared, if not byte by byte.
pub(crate) const KEY_COLLATION: &str =
    "SELECT columns.coll FROM pragma_index_list(:table) AS keys, pragma_index_xinfo(keys.name) AS columns
     WHERE keys.origin = 'pk' AND columns.key AND columns.coll <> 'BINARY' COLLATE NOCASE";

/// `check`: damage inside the table: broken pages, and rows that its own constraints forbid. Reads
/// this table only, however large the rest of the file is.
pub(crate) fn quick_check(table: &Table) -> String {
    format!("PRAGMA quick_check({table})")
}

/// `claim`, beforehand: whether the name is held. A waiter's claim ends here, without asking for the
/// write lock: it neither delays other writers nor waits for them. The answer may be old by the time
/// it arrives, as any refusal may; only [`claim`] grants.
pub(crate) fn held(table: &Table) -> String {
    format!("SELECT expires_at_ms > {NOW} FROM {table} WHERE name = :name")
}

/// `claim`: one statement for a new name and a known one. Of two at once the second has the lock
/// after the first, and finds its row unexpired: no row comes back.
pub(crate) fn claim(table: &Table) -> String {
    let take = take();
    format!(
        "INSERT INTO {table} (name, holder, instance, process, address, version,
                              term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms)
         VALUES (:name, :holder, :instance, :process, :address, :version, 1, {NOW}, {NOW}, {NOW} + :ttl, :ttl)
         ON CONFLICT (name) DO UPDATE SET {take}
         WHERE expires_at_ms <= {NOW}
         RETURNING term"
    )
}

/// `renew`, and `renew_many` for each of its leases: the engine runs inside the process, so a
/// statement more costs microseconds, and the one commit is what a batch saves.
pub(crate) fn renew(table: &Table) -> String {
    format!(
        "UPDATE {table} SET expires_at_ms = {NOW} + :ttl, renewed_at_ms = {NOW}
         WHERE name = :name AND holder = :holder AND expires_at_ms > {NOW}
         RETURNING resign_term = term"
    )
}

/// `verify`.
pub(crate) fn verify(table: &Table) -> String {
    format!("SELECT term FROM {table} WHERE name = :name AND holder = :holder AND expires_at_ms > {NOW}")
}

/// `release`: writes 0 over 0 when repeated, and says so again.
pub(crate) fn release(table: &Table) -> String {
    format!("UPDATE {table} SET expires_at_ms = 0 WHERE name = :name AND holder = :holder RETURNING 1")
}

/// `claim_observed`: holder and expiry both, since a renewal moves only the expiry and a claim within
/// the same millisecond only the holder.
pub(crate) fn claim_observed(table: &Table) -> String {
    let take = take();
    format!(
        "UPDATE {table} SET {take}
         WHERE name = :name AND holder = :seen_holder AND expires_at_ms = :seen_expiry
         RETURNING term"
    )
}

/// The columns of a `LeaseRow`, in the order in which `row::lease_row` reads them.
const COLUMNS: &str = "name, holder, instance, process, address, version, term, claimed_at_ms, renewed_at_ms,
                       expires_at_ms, ttl_ms, resign_term, slot_ms, unfinished_slot_ms, rerun_slot_ms";

/// `inspect`: the outer join brings the clock when there is no row.
pub(crate) fn inspect(table: &Table) -> String {
    format!("SELECT {NOW}, {COLUMNS} FROM (SELECT 1) LEFT JOIN {table} ON name = :name")
}

/// `list`: as [`inspect`]. Names are UTF-8 (a UTF-16 file is refused when it is opened), so that the
/// key's order is the order of their bytes. The comparison with the prefix finds where to begin; it
/// is `substr` that decides, since LIKE and GLOB would read signs in the prefix.
pub(crate) fn list(table: &Table) -> String {
    format!(
        "SELECT {NOW}, page.* FROM (SELECT 1) LEFT JOIN (
             SELECT {COLUMNS} FROM {table}
             WHERE name > :after AND name >= :prefix AND substr(name, 1, length(:prefix)) = :prefix
             ORDER BY name LIMIT :limit
         ) AS page ORDER BY page.name"
    )
}

/// `clear`.
pub(crate) fn clear(table: &Table) -> String {
    format!(
        "UPDATE {table} SET expires_at_ms = 0
         WHERE name = :name AND holder = :seen_holder AND expires_at_ms = :seen_expiry
         RETURNING 1"
    )
}

/// `resign`: for a released or expired term too; it changes nothing then that anybody reads.
pub(crate) fn resign(table: &Table) -> String {
    format!("UPDATE {table} SET resign_term = term WHERE name = :name AND term = :term RETURNING 1")
}

/// `claim_slot`, first: what its refusals and the instant given up are judged by. Asked once
/// beforehand without the lock, as [`held`] is, and again inside the transaction that grants.
pub(crate) fn slot_state(table: &Table) -> String {
    format!(
        "SELECT {NOW}, term, expires_at_ms, slot_ms, unfinished_slot_ms, rerun_slot_ms
         FROM (SELECT 1) LEFT JOIN {table} ON name = :name"
    )
}

/// `claim_slot`, second: in the same transaction as [`slot_state`], so what that read still stands;
/// only the clock may have gone on.
pub(crate) fn claim_slot(table: &Table) -> String {
    let take = take();
    format!(
        "INSERT INTO {table} (name, holder, instance, process, address, version,
                              term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms, slot_ms, unfinished_slot_ms)
         VALUES (:name, :holder, :instance, :process, :address, :version, 1, {NOW}, {NOW}, {NOW} + :ttl, :ttl, :slot, :slot)
         ON CONFLICT (name) DO UPDATE SET {take}, slot_ms = :slot, unfinished_slot_ms = :slot
         RETURNING term"
    )
}

/// `finish_slot`, first step. `:passed` is 0 when no instant was passed over.
pub(crate) fn finish_slot(table: &Table) -> String {
    format!(
        "UPDATE {table} SET expires_at_ms = 0, unfinished_slot_ms = 0,
             slot_ms = CASE WHEN :passed > slot_ms AND :passed <= {NOW} THEN :passed ELSE slot_ms END
         WHERE name = :name AND holder = :holder
         RETURNING 1"
    )
}

/// `finish_slot`, second step, for a lease that was lost: the claim that replaced it may have been
/// for a later slot, which does not match, or for this slot's rerun, for which the end counts as well.
pub(crate) fn record_end(table: &Table) -> String {
    format!(
        "UPDATE {table} SET unfinished_slot_ms = 0
         WHERE name = :name AND unfinished_slot_ms = :slot
         RETURNING 1"
    )
}

/// `unfinished_slots`: `:names` is a JSON array of texts. A name given twice comes back once.
pub(crate) fn unfinished_slots(table: &Table) -> String {
    format!(
        "SELECT name, unfinished_slot_ms, term FROM {table}
         WHERE name IN (SELECT value FROM json_each(:names))
           AND unfinished_slot_ms <> 0 AND unfinished_slot_ms = slot_ms AND rerun_slot_ms < slot_ms
           AND expires_at_ms <= {NOW}"
    )
}

/// `claim_rerun`.
pub(crate) fn claim_rerun(table: &Table) -> String {
    let take = take();
    format!(
        "UPDATE {table} SET {take}, rerun_slot_ms = :slot
         WHERE name = :name AND term = :term
           AND unfinished_slot_ms = :slot AND slot_ms = :slot AND rerun_slot_ms < :slot
           AND expires_at_ms <= {NOW}
         RETURNING term"
    )
}

/// `last_slot`.
pub(crate) fn last_slot(table: &Table) -> String {
    format!("SELECT slot_ms FROM {table} WHERE name = :name")
}

/// The first statement of a guarded transaction, on a connection of the program's, behind [`BEGIN`]: the lease is held, and
/// for a ttl from now. `main.`: a table of that name in the temporary or an attached database does not stand in for it.
///
/// It writes, for meanwhile no renewal of the store's gets through. Until the transaction ends nobody else writes to the
/// file: what it has found stands, whatever pauses, and its commit comes before any other claim.
pub(crate) fn guard(table: &Table) -> String {
    format!(
        "UPDATE main.{table} SET expires_at_ms = {NOW} + ?3, renewed_at_ms = {NOW}
         WHERE name = ?1 AND holder = ?2 AND expires_at_ms > {NOW}
         RETURNING term, resign_term = term AS step_down"
    )
}

/// The databases of a program's connection, the temporary one among them once it is used.
pub(crate) const DATABASES: &str = "PRAGMA database_list";

/// [`JOURNAL_MODE`] of one of them.
pub(crate) fn journal_mode(database: &str) -> String {
    format!("PRAGMA \"{}\".journal_mode", database.replace('"', "\"\""))
}

/// Whether its locks are kept.
pub(crate) const LOCKING_MODE: &str = "PRAGMA main.locking_mode";

/// Triggers of a program's connection on a table of that name, in whichever of its databases.
pub(crate) const TEMPORARY_TRIGGERS: &str = "SELECT EXISTS (SELECT * FROM temp.sqlite_master WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE)";

/// How long a program's connection waits for a lock; 0 also when it has a handler of its own.
pub(crate) const BUSY_TIMEOUT: &str = "PRAGMA busy_timeout";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::NOW;

    #[test]
    fn the_clock_is_exact_to_the_millisecond() {
        let connection = Connection::open_in_memory().unwrap();
        let at = format!("SELECT {}", NOW.replace("'subsec'", "?1, 'subsec'"));
        let mut at = connection.prepare(&at).unwrap();
        for (second, since_1970) in [
            ("1970-01-01 00:00:01", 1),
            ("2023-11-14 22:13:20", 1_700_000_000),
            ("2026-10-25 01:30:00", 1_792_891_800),
            ("9999-12-31 23:59:59", 253_402_300_799),
        ] {
            for ms in 0..1_000 {
                let text = format!("{second}.{ms:03}");
                let read: i64 = at.query_row([&text], |row| row.get(0)).unwrap();
                assert_eq!(read, since_1970 * 1_000 + ms, "{text}");
            }
        }
    }

    #[test]
    fn the_clock_is_the_one_that_sqlite_shows_and_stands_still_within_a_row() {
        let connection = Connection::open_in_memory().unwrap();
        let shown = "strftime('%s', 'now') * 1000 + substr(strftime('%f', 'now'), 4)";
        let mut both = connection.prepare(&format!("SELECT {NOW}, {shown}, {NOW}")).unwrap();
        for _ in 0..1_000 {
            let read = both.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
            let (now, shown, again): (i64, i64, i64) = read.unwrap();
            assert_eq!((now, now), (shown, again));
        }
    }
}
