//! Every statement of this dialect, in the order of the methods of `LeaseStore`.
//!
//! # Why each is atomic
//!
//! Each is one statement in a transaction of its own at the level read committed, whatever the role's or the
//! server's default is: autocommit after [`SESSION`], or between [`begin`] and [`COMMIT`]. A row is
//! changed under its lock. When another transaction has the lock, an `UPDATE` waits, and then
//! PostgreSQL puts its `WHERE` to the newest version of the row: nothing that was committed meanwhile
//! is overlooked, and a row that does not match any more is not changed.
//!
//! What must not wait takes the lock first, by `FOR UPDATE SKIP LOCKED` (claims: a row that another
//! transaction has is answered as held) or `FOR NO KEY UPDATE SKIP LOCKED` (batches: the row is left
//! out). `SKIP LOCKED` also puts the conditions to the newest version before it gives the row out; the
//! `UPDATE` around it then finds its own lock.
//!
//! A claim changes `term`, which is part of a unique key, and takes the strong lock; everything else
//! takes the weak one. So a transaction that holds a row `FOR KEY SHARE` keeps claims off and lets
//! renewals pass.
//!
//! # Why the clock is right
//!
//! [`CLOCK`] reads `clock_timestamp()`, which is no transaction's beginning and knows no time zone,
//! once per statement, so that all columns that are written agree. It is read when the statement
//! begins and not again after a wait for a lock. So after a wait, *now* is too early, by the length of
//! the wait at most. For a claim that is the safe side: less has expired. A renewal gets an
//! expiry that counts from before its wait, as its holder does, who counts from before the statement
//! was sent. And it may revive a lease that expired during the wait: nobody can have had the name
//! meanwhile, for a claim would have brought another holder, who is looked for after the wait.

use crate::options::Table;

/// The database's clock: whole milliseconds since 1970 UTC.
const CLOCK: &str =
    "clock AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now)";

/// Opens a transaction whatever the defaults of role, database and server are, for connections whose
/// settings are not ours: nothing outlives the transaction. Together with it the statement and
/// [`COMMIT`] go out in one flight.
///
/// On a standby this fails, so that nothing is read there either.
pub(crate) fn begin(lock_timeout_ms: u128) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
         SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on; \
         SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = {lock_timeout_ms}"
    )
}

/// Ends it.
pub(crate) const COMMIT: &str = "COMMIT";

/// Undoes it.
pub(crate) const ROLLBACK: &str = "ROLLBACK";

/// Said on every connection of our own before its first statement, for the defaults differ between
/// servers, databases and roles. Answers whether the server is a standby. In one round trip.
///
/// `synchronous_commit`: with `off`, acknowledged claims are forgotten in a crash. The timeouts would
/// end statements and idle connections of ours; a statement waits for locks no longer than
/// [`lock_timeout`], and for nothing else. Settings that a server does not know (`transaction_timeout`
/// before 17) are passed over.
pub(crate) const SESSION: &str = "\
    SET statement_timeout = 0;
    SELECT pg_is_in_recovery(), count(set_config(name, wanted.setting, false))
    FROM (VALUES ('default_transaction_isolation', 'read committed'),
                 ('default_transaction_read_only', 'off'),
                 ('synchronous_commit', 'on'),
                 ('transaction_timeout', '0'),
                 ('idle_session_timeout', '0'),
                 ('idle_in_transaction_session_timeout', '0')) AS wanted (name, setting)
    JOIN pg_settings USING (name)";

/// Asked on a connection to a pooler instead, whose sessions are not ours to set.
pub(crate) const IS_STANDBY: &str = "SELECT pg_is_in_recovery()";

/// What the product calls itself, when [`SESSION`] or [`IS_STANDBY`] failed: others speak the protocol, too.
pub(crate) const VERSION: &str = "SELECT version()";

/// Bounds each wait for a lock, on a connection of our own. Goes out together with a statement, and only
/// when the time has changed much.
pub(crate) fn lock_timeout(ms: u128) -> String {
    format!("SET lock_timeout = {ms}")
}

/// `check`: what the server says of itself and of this session.
pub(crate) const FACTS: &str = "\
    SELECT version(), current_setting('server_encoding'),
           current_setting('fsync'), current_setting('synchronous_commit')";

/// The columns that a granted claim writes on a row that exists. `term + 1` is reckoned from the
/// version that is locked, so it cannot miss another claim.
///
/// A term of 9223372036854775807 has no successor: the sum is out of range, and nothing is changed.
const TAKE: &str = "\
    holder = $2, instance = $3, process = $4, address = $5, version = $6, term = term + 1,
    claimed_at_ms = clock.now, renewed_at_ms = clock.now, expires_at_ms = clock.now + $7, ttl_ms = $7";

/// The columns that a granted claim writes on a new row, and their values.
const NEW: &str = "name, holder, instance, process, address, version, term, claimed_at_ms, renewed_at_ms, \
                   expires_at_ms, ttl_ms";
const NEW_VALUES: &str = "$1, $2, $3, $4, $5, $6, 1, clock.now, clock.now, clock.now + $7, $7";

/// `migrate`: the table in full. Beside other processes under [`MIGRATION_LOCK`].
pub(crate) fn create_table(table: &Table) -> String {
    include_str!("schema.sql").trim_end().replacen("leases", &table.to_string(), 1)
}

/// `migrate`: one column or constraint that is missing, in the words of `schema.sql`.
pub(crate) fn add_column(table: &Table, definition: &str) -> String {
    format!("ALTER TABLE {table} ADD {definition}")
}

/// `migrate`: one process at a time makes or alters a table of this name, until its transaction ends.
pub(crate) const MIGRATION_LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('lease-postgres migrates ' || $1, 0))";

/// `migrate`: an `ALTER TABLE` that waits behind a long transaction has every renewal wait behind
/// itself. So it does not wait for long, and tries again.
pub(crate) const ALTER_BRIEFLY: &str = "SET LOCAL lock_timeout = 500";

/// `migrate` and `check`: what the name stands for, its persistence, whether rows are hidden from this role, and
/// the unique keys there are.
pub(crate) const TABLE_KIND: &str = "\
    SELECT c.relkind::text, c.relpersistence::text, row_security_active(c.oid),
           ARRAY(SELECT (SELECT string_agg(a.attname, ',' ORDER BY k.place)
                         FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
                         JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.number)
                        || CASE WHEN i.indisprimary THEN ' key' ELSE '' END
                 FROM pg_index AS i
                 WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
                   AND i.indpred IS NULL AND i.indexprs IS NULL)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2";

/// `migrate` and `check`: the columns there are, with their types, and the collation where it is one.
pub(crate) const TABLE_COLUMNS: &str = "\
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, coalesce(o.collname::text, '')
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = c.oid LEFT JOIN pg_collation AS o ON o.oid = a.attcollation
    WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum";

/// `check`: the rights this role lacks, in the words of `GRANT`.
pub(crate) const MISSING_RIGHTS: &str = "\
    SELECT wanted.privilege || ' ON ' || wanted.object FROM pg_namespace AS n, LATERAL (
        SELECT 'USAGE' AS privilege, 'SCHEMA ' || quote_ident(n.nspname) AS object,
               has_schema_privilege(n.oid, 'USAGE') AS is_there
        UNION ALL
        SELECT p, quote_ident(n.nspname) || '.' || quote_ident(c.relname), has_table_privilege(c.oid, p)
        FROM pg_class AS c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS p
        WHERE c.relnamespace = n.oid AND c.relname = $2
    ) AS wanted WHERE n.nspname = $1 AND NOT wanted.is_there";

/// `claim`: one statement for a name that is new, free or held. Of two at once on a name that is free
/// the second finds the row locked or, later, unexpired; on a new name the second's insert waits for
/// the first's end and gives way to it. No row comes back then.
///
/// `ON CONFLICT` has no target: with two unique keys, naming one leaves the other to raise an error
/// when two claims insert at once.
pub(crate) fn claim(table: &Table) -> String {
    format!(
        "WITH {CLOCK},
         taken AS (
             UPDATE {table} SET {TAKE} FROM clock
             WHERE name = (SELECT name FROM {table}
                           WHERE name = $1 AND expires_at_ms <= (SELECT now FROM clock)
                           FOR UPDATE SKIP LOCKED)
             RETURNING term),
         made AS (
             INSERT INTO {table} ({NEW}) SELECT {NEW_VALUES} FROM clock
             WHERE NOT EXISTS (SELECT FROM taken) AND NOT EXISTS (SELECT FROM {table} WHERE name = $1)
             ON CONFLICT DO NOTHING RETURNING term)
         SELECT term FROM taken UNION ALL SELECT term FROM made"
    )
}

/// `renew`: waits for a row that is locked, for only this may say that a lease is lost.
pub(crate) fn renew(table: &Table) -> String {
    format!(
        "WITH {CLOCK}
         UPDATE {table} SET expires_at_ms = clock.now + $3, renewed_at_ms = clock.now FROM clock
         WHERE name = $1 AND holder = $2 AND expires_at_ms > clock.now
         RETURNING resign_term = term"
    )
}

/// `renew_many`: names and holders come as two arrays. A row that is locked is skipped; a `KEY SHARE`
/// lock is none that matters here. The rows are locked in the order of their names, though nothing waits.
pub(crate) fn renew_many(table: &Table) -> String {
    format!(
        "WITH {CLOCK},
         asked AS MATERIALIZED (SELECT DISTINCT name, holder FROM unnest($1, $2) AS asked (name, holder)),
         held AS MATERIALIZED (
             SELECT lease.name FROM asked JOIN {table} AS lease USING (name, holder)
             WHERE lease.expires_at_ms > (SELECT now FROM clock)
             ORDER BY lease.name FOR NO KEY UPDATE OF lease SKIP LOCKED)
         UPDATE {table} AS lease SET expires_at_ms = clock.now + $3, renewed_at_ms = clock.now FROM clock, held
         WHERE lease.name = held.name
         RETURNING lease.name, lease.holder, lease.resign_term = lease.term"
    )
}

/// `verify`.
pub(crate) fn verify(table: &Table) -> String {
    format!(
        "WITH {CLOCK} SELECT term FROM clock, {table}
         WHERE name = $1 AND holder = $2 AND expires_at_ms > clock.now"
    )
}

/// `release`: writes 0 over 0 when repeated, and says so again.
pub(crate) fn release(table: &Table) -> String {
    format!("UPDATE {table} SET expires_at_ms = 0 WHERE name = $1 AND holder = $2 RETURNING 1")
}

/// `claim_observed`: holder and expiry both, since a renewal moves only the expiry and a claim within
/// the same millisecond only the holder.
pub(crate) fn claim_observed(table: &Table) -> String {
    format!(
        "WITH {CLOCK}
         UPDATE {table} SET {TAKE} FROM clock
         WHERE name = (SELECT name FROM {table} WHERE name = $1 AND holder = $8 AND expires_at_ms = $9
                       FOR UPDATE SKIP LOCKED)
         RETURNING term"
    )
}

/// The columns of a `LeaseRow`, in the order in which `row::lease_row` reads them.
const COLUMNS: &str = "name, holder, instance, process, address, version, term, claimed_at_ms, renewed_at_ms, \
                       expires_at_ms, ttl_ms, resign_term, slot_ms, unfinished_slot_ms, rerun_slot_ms";

/// `inspect`: the outer join brings the clock when there is no row.
pub(crate) fn inspect(table: &Table) -> String {
    format!("WITH {CLOCK} SELECT clock.now, {COLUMNS} FROM clock LEFT JOIN {table} ON name = $1")
}

/// `list`: as [`inspect`]. The column's collation is `C`, so the key's order is that of the bytes. The
/// comparison with the prefix finds where to begin; it is `starts_with` that decides, since LIKE
/// would read signs in the prefix.
pub(crate) fn list(table: &Table) -> String {
    format!(
        "WITH {CLOCK} SELECT clock.now, page.* FROM clock LEFT JOIN (
             SELECT {COLUMNS} FROM {table}
             WHERE name > $1 AND name >= $2 AND starts_with(name, $2)
             ORDER BY name LIMIT $3
         ) AS page ON true ORDER BY page.name"
    )
}

/// `clear`.
pub(crate) fn clear(table: &Table) -> String {
    format!(
        "UPDATE {table} SET expires_at_ms = 0 WHERE name = $1 AND holder = $2 AND expires_at_ms = $3
         RETURNING 1"
    )
}

/// `resign`: for a released or expired term too; it changes nothing then that anybody reads.
pub(crate) fn resign(table: &Table) -> String {
    format!("UPDATE {table} SET resign_term = term WHERE name = $1 AND term = $2 RETURNING 1")
}

/// `claim_slot`, first: what its refusals and the instant given up are judged by.
pub(crate) fn slot_state(table: &Table) -> String {
    format!(
        "WITH {CLOCK} SELECT clock.now, term, expires_at_ms, slot_ms, unfinished_slot_ms, rerun_slot_ms
         FROM clock LEFT JOIN {table} ON name = $1"
    )
}

/// `claim_slot`, second: grants only on the row as [`slot_state`] read it, `$9` to `$11`, where a term of 0 stands
/// for no row. Claims change the term; a round's end, which does not, changes the slots compared.
pub(crate) fn claim_slot(table: &Table) -> String {
    format!(
        "WITH {CLOCK},
         taken AS (
             UPDATE {table} SET {TAKE}, slot_ms = $8, unfinished_slot_ms = $8 FROM clock
             WHERE name = (SELECT name FROM {table}
                           WHERE name = $1 AND term = $9 AND slot_ms = $10 AND unfinished_slot_ms = $11
                             AND expires_at_ms <= (SELECT now FROM clock)
                           FOR UPDATE SKIP LOCKED)
             RETURNING term),
         made AS (
             INSERT INTO {table} ({NEW}, slot_ms, unfinished_slot_ms)
             SELECT {NEW_VALUES}, $8, $8 FROM clock WHERE $9 = 0
             ON CONFLICT DO NOTHING RETURNING term)
         SELECT term FROM taken UNION ALL SELECT term FROM made"
    )
}

/// `finish_slot`, first step. `$3` is 0 when no instant was passed over.
pub(crate) fn finish_slot(table: &Table) -> String {
    format!(
        "WITH {CLOCK}
         UPDATE {table} SET expires_at_ms = 0, unfinished_slot_ms = 0,
             slot_ms = CASE WHEN $3 > slot_ms AND $3 <= clock.now THEN $3 ELSE slot_ms END
         FROM clock WHERE name = $1 AND holder = $2
         RETURNING 1"
    )
}

/// `finish_slot`, second step, for a lease that was lost: the claim that replaced it may have been
/// for a later slot, which does not match, or for this slot's rerun, for which the end counts as well.
pub(crate) fn record_end(table: &Table) -> String {
    format!(
        "UPDATE {table} SET unfinished_slot_ms = 0 WHERE name = $1 AND unfinished_slot_ms = $2 RETURNING 1"
    )
}

/// `unfinished_slots`: a name given twice comes back once.
pub(crate) fn unfinished_slots(table: &Table) -> String {
    format!(
        "WITH {CLOCK} SELECT name, unfinished_slot_ms, term FROM clock, {table}
         WHERE name = ANY($1)
           AND unfinished_slot_ms <> 0 AND unfinished_slot_ms = slot_ms AND rerun_slot_ms < slot_ms
           AND expires_at_ms <= clock.now"
    )
}

/// `claim_rerun`.
pub(crate) fn claim_rerun(table: &Table) -> String {
    format!(
        "WITH {CLOCK}
         UPDATE {table} SET {TAKE}, rerun_slot_ms = $9 FROM clock
         WHERE name = (SELECT name FROM {table}
                       WHERE name = $1 AND term = $8
                         AND unfinished_slot_ms = $9 AND slot_ms = $9 AND rerun_slot_ms < $9
                         AND expires_at_ms <= (SELECT now FROM clock)
                       FOR UPDATE SKIP LOCKED)
         RETURNING term"
    )
}

/// `last_slot`.
pub(crate) fn last_slot(table: &Table) -> String {
    format!("SELECT slot_ms FROM {table} WHERE name = $1")
}
