\set schema 1 + :client_id % :schemas
\set seed random(1, 9007199254740991)
SELECT pgio_read_:schema(:seed, :units, :read_blocks, :read_places);
