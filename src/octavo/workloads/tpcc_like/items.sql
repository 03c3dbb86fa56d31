INSERT INTO item
SELECT
    i,
    1 + floor(random() * 10000)::integer,
    left(noise, 14 + floor(random() * 11)::integer),
    1 + floor(random() * 9901)::integer / 100.0,
    -- A tenth of them say ORIGINAL.
    substr(noise, 33, 18 + floor(random() * 25)::integer) || CASE WHEN random() < 0.1 THEN 'ORIGINAL' ELSE '' END
FROM (
    SELECT i, md5(random()::text) || md5(random()::text) || md5(random()::text) AS noise
    FROM generate_series(1, 100000) AS i
) AS drawn;
