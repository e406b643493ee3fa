CREATE TABLE IF NOT EXISTS leases (
    name VARBINARY(191) NOT NULL PRIMARY KEY,
    holder CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    instance VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    process VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    address VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    version VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    term BIGINT NOT NULL CHECK (term > 0),
    claimed_at_ms BIGINT NOT NULL,
    renewed_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL,
    ttl_ms BIGINT NOT NULL CHECK (ttl_ms > 0),
    resign_term BIGINT NOT NULL DEFAULT 0,
    slot_ms BIGINT NOT NULL DEFAULT 0,
    unfinished_slot_ms BIGINT NOT NULL DEFAULT 0,
    rerun_slot_ms BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB
