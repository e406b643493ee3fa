CREATE TABLE IF NOT EXISTS leases (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    instance TEXT NOT NULL DEFAULT '',
    process TEXT NOT NULL DEFAULT '',
    address TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL DEFAULT '',
    term INTEGER NOT NULL CHECK (term > 0),
    claimed_at_ms INTEGER NOT NULL,
    renewed_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL CHECK (ttl_ms > 0),
    resign_term INTEGER NOT NULL DEFAULT 0,
    slot_ms INTEGER NOT NULL DEFAULT 0,
    unfinished_slot_ms INTEGER NOT NULL DEFAULT 0,
    rerun_slot_ms INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID
