\set seed random(1, 9007199254740991)
SELECT update_blocks(:seed);
