CREATE TABLE IF NOT EXISTS leases (
    name text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 191),
    holder text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL DEFAULT '',
    process text COLLATE "C" NOT NULL DEFAULT '',
    address text COLLATE "C" NOT NULL DEFAULT '',
    version text COLLATE "C" NOT NULL DEFAULT '',
    term bigint NOT NULL CHECK (term > 0),
    claimed_at_ms bigint NOT NULL,
    renewed_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    ttl_ms bigint NOT NULL CHECK (ttl_ms > 0),
    resign_term bigint NOT NULL DEFAULT 0,
    slot_ms bigint NOT NULL DEFAULT 0,
    unfinished_slot_ms bigint NOT NULL DEFAULT 0,
    rerun_slot_ms bigint NOT NULL DEFAULT 0,
    UNIQUE (name, term)
) WITH (fillfactor = 50)
