//! Every statement of this dialect, in the order of the methods of `LeaseStore`.
//!
//! # Why each is atomic
//!
//! Each is one statement in a transaction of its own at the level read committed, whatever the role's or the
//! server's default is: in one message, behind [`prologue`] or [`look`]. A row is
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

use crate::guard::{Bounds, Isolation, Transaction};
use crate::options::Table;
use crate::row::quoted;

/// The database's clock: whole milliseconds since 1970 UTC.
const CLOCK: &str = "clock AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000::numeric)::bigint AS now)";

/// Where a message begins that runs a statement whatever the defaults of role, database and server are, and whoever has the
/// session besides. A message of several statements is one transaction, which ends with it. Nothing outlives that, for
/// a session may be a pooler's or the program's.
///
/// - `search_path`: an operator or a function of somebody else's, in a schema on the path, could stand in for one of
///   PostgreSQL's, the clock's among them.
/// - `synchronous_commit`: with `off`, acknowledged claims are forgotten in a crash.
/// - `statement_timeout` would end statements of ours; a wait for a lock has a bound of its own.
/// - In a transaction that somebody has left open, to which the message would belong, the last statement fails.
///
/// On a standby this fails, so that nothing is read there either.
pub(crate) fn prologue(lock_timeout_ms: u128) -> String {
    format!(
        "{SETTINGS}; SELECT set_config('lock_timeout', CASE WHEN now() = statement_timestamp() THEN '{lock_timeout_ms}' \
                                       ELSE '{LEFT_OPEN}' END, true)"
    )
}

/// What the server is told to say of a transaction that was left open.
pub(crate) const LEFT_OPEN: &str = "a transaction was left open";

const SETTINGS: &str = "\
    SET LOCAL TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; \
    SET LOCAL search_path = pg_catalog, pg_temp; \
    SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on";

/// Opens a transaction of several messages in the same way. A machine that vanishes in the middle of it does not keep its
/// locks for longer than the idle transaction's bound.
pub(crate) fn begin(lock_timeout_ms: u128) -> String {
    format!("BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'; {}", prologue(lock_timeout_ms))
}

/// Ends it.
pub(crate) const COMMIT: &str = "COMMIT";

/// Undoes it.
pub(crate) const ROLLBACK: &str = "ROLLBACK";

/// Asked on every connection of our own before its first statement: whether the server is a standby, and whether the session's
/// defaults are as they should be. Where transactions are serializable and
/// deferrable by default, it would wait for others' to end if it did not say its level.
pub(crate) fn is_standby() -> String {
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SELECT pg_catalog.pg_is_in_recovery(), {AS_IT_SHOULD_BE} \
             AND pg_catalog.current_setting('default_transaction_isolation') OPERATOR(pg_catalog.=) 'read committed' \
             AND pg_catalog.current_setting('default_transaction_read_only') OPERATOR(pg_catalog.=) 'off'"
    )
}

/// Where this is so, [`SETTINGS`] would change nothing for what is prepared. The schema `pg_catalog` comes first among those of functions and operators where it is not
/// named, and what is prepared has for each the very types that one there takes, so that none behind fits better.
const AS_IT_SHOULD_BE: &str = "\
    pg_catalog.current_setting('client_encoding') OPERATOR(pg_catalog.=) 'UTF8' AND \
    pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'on' \
    AND pg_catalog.current_setting('statement_timeout') OPERATOR(pg_catalog.=) '0' \
    AND (pg_catalog.replace(pg_catalog.current_setting('search_path'), '\"', '') OPERATOR(pg_catalog.=) 'pg_catalog, pg_temp' \
        OR pg_catalog.strpos(pg_catalog.lower(pg_catalog.current_setting('search_path')), 'pg_catalog') \
            OPERATOR(pg_catalog.=) 0)";

/// In a session of ours, statements are prepared, and so is this look, which goes in front of each of them in place of
/// [`prologue`]: it sets the bound for locks, and fails when the session is not as it should be, nor its transaction
/// begun by this message. To read and plan a query costs the server more than to run it, and to set what is so already costs as much
/// again (measured).
///
/// All of it is prepared by SQL, under names with a `mark` that no other session has. (The driver's names are the same in every
/// process. Behind a pooler that gives sessions away in turn, another's statement may stand under the name of ours: a
/// `verify` would run as its `release`.) Where the names are not known (26000) a pooler is between; where the look fails (22023, with the mark in
/// its text) a setting has changed. Nothing has been run then.
///
/// `pg_stat_statements` counts the looks of all sessions as one statement, and what is run under their names, too.
pub(crate) fn prepare_look(mark: &str) -> String {
    format!(
        "PREPARE lease_{mark} (pg_catalog.text) AS SELECT pg_catalog.set_config('lock_timeout', CASE \
             WHEN pg_catalog.now() OPERATOR(pg_catalog.=) pg_catalog.statement_timestamp() \
                 AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed' \
                 AND pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'off' \
                 AND {AS_IT_SHOULD_BE} \
             THEN $1 ELSE 'the session of {mark} is not as it was' END, true)"
    )
}

/// Where a message begins that runs what was prepared; with the settings where the session's defaults are others.
pub(crate) fn look(mark: &str, lock_timeout_ms: u128, with_settings: bool) -> String {
    let settings = if with_settings { format!("{SETTINGS}; ") } else { String::new() };
    format!("{settings}EXECUTE lease_{mark} ('{lock_timeout_ms}')")
}

/// Prepares the session's statement of this number.
pub(crate) fn prepare(mark: &str, number: usize, types: &str, statement: &str) -> String {
    let types = if types.is_empty() { String::new() } else { format!(" ({types})") };
    format!("PREPARE lease_{mark}_{number}{types} AS {statement}")
}

/// Runs it.
pub(crate) fn execute(mark: &str, number: usize, literals: &str) -> String {
    let values = if literals.is_empty() { String::new() } else { format!(" ({literals})") };
    format!("EXECUTE lease_{mark}_{number}{values}")
}

/// What the product calls itself, when [`is_standby`] failed: others speak the protocol, too.
pub(crate) const VERSION: &str = "SELECT version()";

/// `check`: what the server says of itself and of this transaction.
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

/// `migrate` and `check`: what the name stands for, its persistence, whether row security applies to this role, the
/// unique keys there are, one on a line, and whether another table inherits from it.
pub(crate) const TABLE_KIND: &str = "\
    SELECT c.relkind::text, c.relpersistence::text, row_security_active(c.oid),
           (SELECT coalesce(string_agg(
                       (SELECT string_agg(replace(a.attname, chr(10), ' '), ',' ORDER BY k.place)
                        FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
                        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.number
                        WHERE k.place <= i.indnkeyatts)
                       || CASE WHEN i.indisprimary THEN ' key' ELSE '' END, chr(10)), '')
            FROM pg_index AS i
            WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
              AND i.indpred IS NULL AND i.indexprs IS NULL),
           EXISTS (SELECT FROM pg_inherits AS child WHERE child.inhparent = c.oid)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2";

/// `migrate` and `check`: the columns there are, with their types, and the collation where it is one. Types
/// of ours are known by their numbers: a setting can have their names quoted.
pub(crate) const TABLE_COLUMNS: &str = "\
    SELECT a.attname::text,
           CASE a.atttypid WHEN 25 THEN 'text' WHEN 20 THEN 'bigint' ELSE format_type(a.atttypid, a.atttypmod) END,
           a.attnotnull, coalesce(o.collname::text, '')
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
        FROM pg_class AS c, pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS p
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
             UPDATE {table} AS lease SET {TAKE} FROM clock
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

/// `renew`: waits for a row that is locked, for only this may say that a lease is lost. So what it waits for is the
/// row, and whether that has expired is judged by the version it gets: another renewal, whose end it awaits, may
/// just have extended it. The clock is read before the wait. An expired row is written as it was: to lock it first and then judge
/// costs each renewal a record in the log more.
pub(crate) fn renew(table: &Table) -> String {
    format!(
        "WITH {CLOCK}
         UPDATE {table} AS lease SET
             expires_at_ms = CASE WHEN expires_at_ms > clock.now THEN clock.now + $3 ELSE expires_at_ms END,
             renewed_at_ms = CASE WHEN expires_at_ms > clock.now THEN clock.now ELSE renewed_at_ms END
         FROM clock WHERE name = $1 AND holder = $2
         RETURNING expires_at_ms > clock.now, resign_term = term"
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
        "WITH {CLOCK} SELECT term FROM clock, {table} AS lease
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
         UPDATE {table} AS lease SET {TAKE} FROM clock
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
    format!("WITH {CLOCK} SELECT clock.now, {COLUMNS} FROM clock LEFT JOIN {table} AS lease ON name = $1")
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
         FROM clock LEFT JOIN {table} AS lease ON name = $1"
    )
}

/// `claim_slot`, second: grants only on the row as [`slot_state`] read it, `$9` to `$11`, where a term of 0 stands
/// for no row. Claims change the term; a round's end, which does not, changes the slots compared.
pub(crate) fn claim_slot(table: &Table) -> String {
    format!(
        "WITH {CLOCK},
         taken AS (
             UPDATE {table} AS lease SET {TAKE}, slot_ms = $8, unfinished_slot_ms = $8 FROM clock
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
         UPDATE {table} AS lease SET expires_at_ms = 0, unfinished_slot_ms = 0,
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
        "WITH {CLOCK} SELECT name, unfinished_slot_ms, term FROM clock, {table} AS lease
         WHERE name = ANY($1)
           AND unfinished_slot_ms <> 0 AND unfinished_slot_ms = slot_ms AND rerun_slot_ms < slot_ms
           AND expires_at_ms <= clock.now"
    )
}

/// `claim_rerun`.
pub(crate) fn claim_rerun(table: &Table) -> String {
    format!(
        "WITH {CLOCK}
         UPDATE {table} AS lease SET {TAKE}, rerun_slot_ms = $9 FROM clock
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

/// The channel on which releases are announced. The payloads say of which table.
pub(crate) const CHANNEL: &str = "lease_released";

/// `notices`, in a session that is ours alone: the server is not to end it for its silence.
pub(crate) const MAY_IDLE: &str = "SET idle_session_timeout = 0";

/// `notices`.
pub(crate) const LISTEN: &str = "LISTEN lease_released";

/// `notices`, now and then: no row in a session that does not listen any more.
pub(crate) const LISTENS: &str =
    "SELECT 1 FROM pg_listening_channels() AS listens (channel) WHERE channel = 'lease_released'";

/// `notices`: the process that the session runs in.
pub(crate) const PROCESS: &str = "SELECT pg_backend_pid()::bigint";

/// `announce`: many at once, in one message that runs in no transaction but its own (else it fails, 22012) and leaves nothing behind
/// in the session. A transaction that notifies takes, for its commit, a lock of which the whole server has one. So it does
/// not wait for the disk, nor for a standby, while it has that: a hint may be lost in a crash.
pub(crate) fn announce(announcements: &[String], lock_timeout_ms: u128) -> String {
    // No name holds a control character.
    let all = quoted(&announcements.join("\n"));
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path = pg_catalog, pg_temp; \
         SET LOCAL statement_timeout = 0; \
         SELECT 1 / (now() = statement_timestamp())::integer, set_config('synchronous_commit', 'off', true), \
                set_config('lock_timeout', '{lock_timeout_ms}', true), pg_notify('lease_released', announced) \
         FROM unnest(string_to_array({all}, chr(10))) AS announced; \
         {COMMIT}"
    )
}

/// A guarded transaction, first: begins it in the program's session, at its level and within its bounds, whatever the
/// session's defaults are, and brings what the session has of its own, for [`keep_own`]: to set is cheap, to set by what is there costs
/// the server more than all else (measured). In a transaction that somebody has left open, which `BEGIN` only warns of, it fails (22012).
/// What is committed is to be as durable as a claim. No wait for a lock outlasts `lock_timeout_ms`, that of the next statement for
/// the table among them, which it waits for before it runs; [`guard`] puts back what the session had.
///
/// Like all statements of guards it names the schema of each function, operator and type, for the `search_path` is the program's
/// and stays so.
pub(crate) fn begin_guarded(isolation: Isolation, bounds: &Bounds, lock_timeout_ms: u128) -> String {
    let level = isolation.level();
    let begins_here = "1 OPERATOR(pg_catalog./) \
        (pg_catalog.now() OPERATOR(pg_catalog.=) pg_catalog.statement_timestamp())::pg_catalog.int4";
    let each = |text: fn(&str, u128) -> String| -> String {
        bounds.settings().map(|(setting, ms)| text(setting, ms)).collect()
    };
    let own = each(|setting, _| format!(", pg_catalog.current_setting('{setting}')"));
    let set = each(|setting, ms| format!("; SET LOCAL {setting} = {ms}"));
    format!(
        "BEGIN ISOLATION LEVEL {level}, READ WRITE, NOT DEFERRABLE; \
         SELECT pg_catalog.current_setting('synchronous_commit'){own}, {begins_here}, \
             pg_catalog.set_config('{LOCK_TIMEOUT}', pg_catalog.current_setting('lock_timeout'), true)\
         {set}; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {lock_timeout_ms}"
    )
}

/// A guarded transaction, second, where the session has bounds of its own, or is more durable: puts back what is as tight as ours, or tighter.
/// `own` is as [`begin_guarded`] brings it. `None`: there is nothing to put back.
pub(crate) fn keep_own<'own>(
    mut own: impl Iterator<Item = Option<&'own str>>,
    bounds: &Bounds,
) -> Option<String> {
    let durable = own.next().flatten().filter(|own| !["off", "local", "remote_write", "on"].contains(own));
    let durable =
        durable.map(|own| format!("pg_catalog.set_config('synchronous_commit', {}, true)", quoted(own)));
    let bounds = bounds.settings().zip(own).filter_map(|((setting, ms), own)| {
        let own = own.filter(|own| *own != "0")?;
        Some(bound(setting, &quoted(own), ms))
    });
    let set: Vec<String> = durable.into_iter().chain(bounds).collect();
    (!set.is_empty()).then(|| format!("SELECT {}", set.join(", ")))
}

/// The setting that keeps the session's own `lock_timeout` meanwhile.
const LOCK_TIMEOUT: &str = "lease.lock_timeout";

/// The bounds alone. They hold until the transaction ends.
pub(crate) fn bounds(bounds: &Bounds) -> String {
    let set: Vec<String> = bounds
        .settings()
        .map(|(setting, ms)| bound(setting, &format!("pg_catalog.current_setting('{setting}')"), ms))
        .collect();
    format!("SELECT {}", set.join(", "))
}

/// A setting that the session may have made tighter; to all of these 0 is none. It is told with its unit, but for the
/// one that the system has the last word on.
fn bound(setting: &str, own: &str, ms: u128) -> String {
    let unit = if setting == "tcp_user_timeout" { " OPERATOR(pg_catalog.||) 'ms'" } else { "" };
    let theirs = format!("({own}{unit})::pg_catalog.interval");
    let ours = format!("'{ms} milliseconds'::pg_catalog.interval");
    format!(
        "pg_catalog.set_config('{setting}', CASE \
            WHEN {theirs} OPERATOR(pg_catalog.>) '0'::pg_catalog.interval AND {theirs} OPERATOR(pg_catalog.<=) {ours} \
            THEN {own} ELSE '{ms}' END, true)"
    )
}

/// A guarded transaction, in the same message: verifies the lease and keeps it from being claimed, as [`fence`] does; brings what
/// the transaction is known by from now on. The session's own bound of waits for locks is in force again behind it.
///
/// A message has no parameters; no setting has a say in what their literals are.
pub(crate) fn guard(table: &Table, name: &str, holder: &str) -> String {
    let held = held(table, &quoted(name), &quoted(holder));
    format!("WITH held AS MATERIALIZED ({held} FOR KEY SHARE) SELECT {NUMBER}, {OWN_LOCK_TIMEOUT} FROM held")
}

/// What makes a transaction a guarded one. A claim takes the lock that `KEY SHARE` is in the way of, and is answered held until
/// the transaction has ended; renewals pass. The lock is no savepoint's of the program's, for it is older than all of them.
///
/// Where the isolation is read committed, it is the row's newest version that is looked at, also after a wait. At the other levels a
/// claim since the snapshot fails it (40001), and renewals do not: they change no key, and the lock is taken on the newest
/// version along with the one that is seen.
pub(crate) fn fence(table: &Table) -> String {
    format!("{} FOR KEY SHARE", held(table, "$1", "$2"))
}

fn held(table: &Table, name: &str, holder: &str) -> String {
    let now = "pg_catalog.floor(EXTRACT(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) \
               1000::pg_catalog.numeric)::pg_catalog.int8";
    format!(
        "SELECT term FROM {table} WHERE name OPERATOR(pg_catalog.=) {name} AND holder OPERATOR(pg_catalog.=) {holder} \
         AND expires_at_ms OPERATOR(pg_catalog.>) {now}"
    )
}

/// On another database, in place of [`guard`].
pub(crate) fn unfenced() -> String {
    format!("SELECT {NUMBER}, {OWN_LOCK_TIMEOUT}")
}

const OWN_LOCK_TIMEOUT: &str =
    "pg_catalog.set_config('lock_timeout', pg_catalog.current_setting('lease.lock_timeout'), true)";

/// What a transaction is known by: its number, the process it is in, and when the server was started, for after a crash or a
/// failover numbers can come again.
const NUMBER: &str = "\
    pg_catalog.pg_current_xact_id()::pg_catalog.text, pg_catalog.pg_backend_pid()::pg_catalog.int8, \
    (EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000::pg_catalog.numeric)\
        ::pg_catalog.int8";

/// A guarded transaction, at its end: fails (22012) unless this is it, and (25P02) if it has failed, for PostgreSQL answers a
/// `COMMIT` then as well, without an error. In one flight with [`COMMIT`], which
/// commits nothing after a failure. (No `statement_timeout` holds for a commit, which may wait for a synchronous standby.)
pub(crate) fn is_transaction(transaction: Transaction) -> String {
    format!(
        "SELECT 1 OPERATOR(pg_catalog./) COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text \
            OPERATOR(pg_catalog.=) '{transaction}', false)::pg_catalog.int4"
    )
}

/// Undoes a guarded transaction, and asks what has become of it: the program may have committed it.
pub(crate) fn roll_back_guarded(transaction: Option<Transaction>) -> String {
    let status = transaction.map_or_else(String::new, |transaction| {
        format!("; SELECT pg_catalog.pg_xact_status('{transaction}'::pg_catalog.xid8)")
    });
    format!("{ROLLBACK}{status}")
}

/// Ends the session that has a guarded transaction open, on a connection of the store's. No row: none has, or not any more. What a transaction
/// has locked is its number, and that is told to every role, unlike what `pg_stat_activity` says; so nobody else's session is ended, though a pooler
/// had given it away. A prepared transaction is in no session.
pub(crate) fn end_guarded() -> String {
    format!("SELECT pg_terminate_backend(pid) {OPEN_IN_A_SESSION}")
}

/// The same, and ends nothing.
pub(crate) fn find_guarded() -> String {
    format!("SELECT pid {OPEN_IN_A_SESSION}")
}

const OPEN_IN_A_SESSION: &str = "\
    FROM pg_locks WHERE locktype = 'transactionid' AND transactionid = $1::xid8::xid AND pid = $2::integer
      AND $3 = (EXTRACT(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
      AND mode = 'ExclusiveLock' AND granted";

/// What has become of a guarded transaction, on a connection of the store's: `committed`, `aborted` or `in progress`, no row on
/// a server that was started since, and null when the server does not know any more.
pub(crate) const STATUS: &str = "\
    SELECT pg_xact_status($1::xid8)
    WHERE $2 = (EXTRACT(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";
