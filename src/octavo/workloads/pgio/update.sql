\set schema 1 + :client_id % :schemas
\set seed random(1, 9007199254740991)
SELECT pgio_update_:schema(:seed, :units, :update_blocks, :update_places);
