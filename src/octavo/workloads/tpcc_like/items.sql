INSERT INTO item
SELECT
    i,
    1 + floor(random() * 10000)::integer,
    left(noise, 14 + floor(random() * 11)::integer),
    1 + floor(random() * 9901)::integer / 100.0,
    -- A tenth of them say ORIGINAL somewhere.
    CASE
        WHEN random() >= 0.1 THEN left(information, length)
        ELSE overlay(left(information, length) PLACING 'ORIGINAL' FROM 1 + floor(random() * (length - 7))::integer)
    END
FROM (
    SELECT
        i, md5(random()::text) AS noise, md5(random()::text) || md5(random()::text) AS information,
        26 + floor(random() * 25)::integer AS length
    FROM generate_series(1, 100000) AS i
) AS drawn;
