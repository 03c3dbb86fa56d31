-- Both take: seed of the places, work units a call, blocks a unit, and how many places a unit may begin at.
-- A set and no loop: one plan for all units of a call, with one start of the executor. The settings keep that plan an
-- index scan within a nested loop, whatever the planner would make of ranges that it does not know.
CREATE FUNCTION pgio_read_{schema}(seed bigint, units int, blocks int, places bigint) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_memoize = off SET enable_material = off SET jit = off SET max_parallel_workers_per_gather = 0
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    answer bigint;
BEGIN
    SELECT sum(block.scratch) INTO answer
    FROM generate_series(1, units) AS number
    CROSS JOIN LATERAL (SELECT 1 + (hashint8extended(number, seed) & 9223372036854775807) % places AS first) AS place
    JOIN pgio{schema} AS block ON block.mykey BETWEEN place.first AND place.first + blocks - 1;
    RETURN answer;
END
$$;

-- In the order of the keys, so that sessions of one schema wait for each other and never in a circle.
CREATE FUNCTION pgio_update_{schema}(seed bigint, units int, blocks int, places bigint) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_memoize = off SET enable_material = off SET jit = off SET max_parallel_workers_per_gather = 0
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    changed bigint;
BEGIN
    UPDATE pgio{schema} AS block SET scratch = block.scratch + 1
    FROM (
        SELECT 1 + (hashint8extended(number, seed) & 9223372036854775807) % places AS first
        FROM generate_series(1, units) AS number ORDER BY 1
    ) AS place
    WHERE block.mykey BETWEEN place.first AND place.first + blocks - 1;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END
$$;
