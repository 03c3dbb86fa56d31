\set seed random(1, 9007199254740991)
SELECT read_blocks(:seed);
