-- One warehouse's rows, {warehouse}, as clause 4.3.3.1 says how many and in which ranges; {c_last} is the constant of
-- the names' NURand.
INSERT INTO warehouse
SELECT
    {warehouse}, left(noise, 6 + floor(random() * 5)::integer), substr(noise, 11, 10 + floor(random() * 11)::integer),
    substr(noise, 31, 10 + floor(random() * 11)::integer), substr(noise, 51, 10 + floor(random() * 11)::integer),
    substr(noise, 71, 2), lpad(floor(random() * 10000)::text, 4, '0') || '11111', floor(random() * 2001)::integer / 10000.0,
    300000
FROM (SELECT md5(random()::text) || md5(random()::text) || md5(random()::text) AS noise) AS drawn;

INSERT INTO district
SELECT
    district, {warehouse}, left(noise, 6 + floor(random() * 5)::integer),
    substr(noise, 11, 10 + floor(random() * 11)::integer), substr(noise, 31, 10 + floor(random() * 11)::integer),
    substr(noise, 51, 10 + floor(random() * 11)::integer), substr(noise, 71, 2),
    lpad(floor(random() * 10000)::text, 4, '0') || '11111', floor(random() * 2001)::integer / 10000.0, 30000, 3001
FROM (
    SELECT district, md5(random()::text) || md5(random()::text) || md5(random()::text) AS noise
    FROM generate_series(1, 10) AS district
) AS drawn;

INSERT INTO customer
SELECT
    customer, district, {warehouse}, left(noise, 8 + floor(random() * 9)::integer), 'OE',
    last_name(
        CASE
            WHEN customer <= 1000 THEN customer - 1
            ELSE ((floor(random() * 256)::integer | floor(random() * 1000)::integer) + {c_last}) % 1000
        END
    ),
    substr(noise, 17, 10 + floor(random() * 11)::integer), substr(noise, 37, 10 + floor(random() * 11)::integer),
    substr(noise, 57, 10 + floor(random() * 11)::integer), substr(noise, 77, 2),
    lpad(floor(random() * 10000)::text, 4, '0') || '11111', lpad(floor(random() * 1e16)::bigint::text, 16, '0'),
    {loaded}, CASE WHEN random() < 0.1 THEN 'BC' ELSE 'GC' END, 50000, floor(random() * 5001)::integer / 10000.0,
    -10, 10, 1, 0, substr(noise, 97, 300 + floor(random() * 201)::integer)
FROM (
    SELECT
        district, customer,
        md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text)
        || md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text)
        || md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text)
        || md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text)
        || md5(random()::text) || md5(random()::text) || md5(random()::text) AS noise
    FROM generate_series(1, 10) AS district, generate_series(1, 3000) AS customer
) AS drawn;

INSERT INTO history
SELECT
    customer, district, {warehouse}, district, {warehouse}, {loaded}, 10,
    left(md5(random()::text), 12 + floor(random() * 13)::integer)
FROM generate_series(1, 10) AS district, generate_series(1, 3000) AS customer;

INSERT INTO stock
SELECT
    i, {warehouse}, 10 + floor(random() * 91)::integer, left(noise, 24), substr(noise, 25, 24), substr(noise, 49, 24),
    substr(noise, 73, 24), substr(noise, 97, 24), substr(noise, 121, 24), substr(noise, 145, 24),
    substr(noise, 169, 24), substr(noise, 193, 24), substr(noise, 217, 24), 0, 0, 0,
    CASE
        WHEN random() >= 0.1 THEN left(information, length)
        ELSE overlay(left(information, length) PLACING 'ORIGINAL' FROM 1 + floor(random() * (length - 7))::integer)
    END
FROM (
    SELECT
        i, md5(random()::text) || md5(random()::text) AS information, 26 + floor(random() * 25)::integer AS length,
        md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text)
        || md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text) AS noise
    FROM generate_series(1, 100000) AS i
) AS drawn;

-- Each customer has one order, in an order of chance; the last 900 of a district are not delivered.
WITH placed AS MATERIALIZED (
    SELECT
        district, customer, row_number() OVER (PARTITION BY district ORDER BY random())::integer AS o_id,
        5 + floor(random() * 11)::integer AS line_count
    FROM generate_series(1, 10) AS district, generate_series(1, 3000) AS customer
),
written AS (
    INSERT INTO orders
    SELECT
        o_id, district, {warehouse}, customer, {loaded},
        CASE WHEN o_id <= 2100 THEN 1 + floor(random() * 10)::integer END, line_count, 1
    FROM placed
    ORDER BY district, o_id
)
INSERT INTO order_line
SELECT
    o_id, district, {warehouse}, line, 1 + floor(random() * 100000)::integer, {warehouse},
    CASE WHEN o_id <= 2100 THEN {loaded} END, 5,
    CASE WHEN o_id <= 2100 THEN 0 ELSE (1 + floor(random() * 999999)::integer) / 100.0 END, left(md5(random()::text), 24)
FROM (SELECT * FROM placed ORDER BY district, o_id) AS placed, generate_series(1, line_count) AS line;

INSERT INTO new_order
SELECT o_id, district, {warehouse} FROM generate_series(1, 10) AS district, generate_series(2101, 3000) AS o_id;
