-- A table as PGIO's: a row a block, its key in another order than its place.
CREATE TABLE block (mykey bigint NOT NULL, scratch int NOT NULL, filler text NOT NULL) WITH (fillfactor = 10);
ALTER TABLE block ALTER COLUMN filler SET STORAGE PLAIN;
INSERT INTO block SELECT mykey, 0, repeat('x', current_setting('block_size')::int / 8 - 40)
FROM (SELECT mykey FROM generate_series(1, 4096) AS mykey ORDER BY hashint8extended(mykey, 1)) AS shuffled;
CREATE INDEX block_mykey ON block (mykey);
VACUUM (FREEZE, ANALYZE) block;

CREATE FUNCTION read_blocks(seed bigint) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    answer bigint;
BEGIN
    SELECT sum(block.scratch) INTO answer
    FROM generate_series(1, 50) AS number
    CROSS JOIN LATERAL (SELECT 1 + (hashint8extended(number, seed) & 9223372036854775807) % 3842 AS first) AS place
    JOIN block ON block.mykey BETWEEN place.first AND place.first + 254;
    RETURN answer;
END
$$;

CREATE FUNCTION update_blocks(seed bigint) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    UPDATE block SET scratch = block.scratch + 1
    FROM (
        SELECT 1 + (hashint8extended(number, seed) & 9223372036854775807) % 4089 AS first
        FROM generate_series(1, 10) AS number ORDER BY 1
    ) AS place
    WHERE block.mykey BETWEEN place.first AND place.first + 7;
END
$$;
