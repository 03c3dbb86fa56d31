-- Tablespaces: where their links lead (relative to the data directory for one in place, empty for the two that have
-- none), and the planner settings that each has of its own. Everybody may ask.
SELECT spcname::text AS name, pg_tablespace_location(oid) AS location, coalesce(spcoptions, '{}')::text[] AS options
FROM pg_tablespace
ORDER BY spcname
LIMIT 1000
