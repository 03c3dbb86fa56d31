-- New-Order (clause 2.4): an order of 5 to 15 lines. With unused = 1 its last line asks for an item that does not exist,
-- and all of it is rolled back.
\set unused 0
\set w random(1, :warehouses)
\set d random(1, 10)
\set c ((random(0, 1023) | random(1, 3000)) + :nurand_customer) % 3000 + 1
\set lines random(5, 15)
\set i1 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s1 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q1 random(1, 10)
\set i2 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s2 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q2 random(1, 10)
\set i3 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s3 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q3 random(1, 10)
\set i4 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s4 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q4 random(1, 10)
\set i5 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s5 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q5 random(1, 10)
\set i6 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s6 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q6 random(1, 10)
\set i7 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s7 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q7 random(1, 10)
\set i8 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s8 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q8 random(1, 10)
\set i9 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s9 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q9 random(1, 10)
\set i10 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s10 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q10 random(1, 10)
\set i11 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s11 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q11 random(1, 10)
\set i12 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s12 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q12 random(1, 10)
\set i13 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s13 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q13 random(1, 10)
\set i14 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s14 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q14 random(1, 10)
\set i15 ((random(0, 8191) | random(1, 100000)) + :nurand_item) % 100000 + 1
\set s15 case when :warehouses > 1 and random(1, 100) = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set q15 random(1, 10)
BEGIN;
SELECT w_tax, c_discount, c_last, c_credit
FROM warehouse JOIN customer ON c_w_id = w_id WHERE w_id = :w AND c_d_id = :d AND c_id = :c \gset
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d
RETURNING d_next_o_id - 1 AS o, d_tax \gset
INSERT INTO new_order VALUES (:o, :d, :w);
-- Stock is taken in the order of its key, so that two orders do not wait for each other. An item that an order asks for
-- twice is one row of stock.
WITH line AS MATERIALIZED (
    SELECT
        number, supply, quantity,
        CASE WHEN :unused::integer = 1 AND number = :lines::integer THEN 0 ELSE item END AS item
    FROM (
        VALUES
        (1, :i1::integer, :s1::integer, :q1::integer),
        (2, :i2::integer, :s2::integer, :q2::integer),
        (3, :i3::integer, :s3::integer, :q3::integer),
        (4, :i4::integer, :s4::integer, :q4::integer),
        (5, :i5::integer, :s5::integer, :q5::integer),
        (6, :i6::integer, :s6::integer, :q6::integer),
        (7, :i7::integer, :s7::integer, :q7::integer),
        (8, :i8::integer, :s8::integer, :q8::integer),
        (9, :i9::integer, :s9::integer, :q9::integer),
        (10, :i10::integer, :s10::integer, :q10::integer),
        (11, :i11::integer, :s11::integer, :q11::integer),
        (12, :i12::integer, :s12::integer, :q12::integer),
        (13, :i13::integer, :s13::integer, :q13::integer),
        (14, :i14::integer, :s14::integer, :q14::integer),
        (15, :i15::integer, :s15::integer, :q15::integer)
    ) AS drawn (number, item, supply, quantity)
    WHERE number <= :lines::integer
),
placed AS (
    INSERT INTO orders
    SELECT :o::integer, :d::integer, :w::integer, :c::integer, current_timestamp, NULL, :lines::integer, bool_and(supply = :w)::integer FROM line
),
taken AS (
    UPDATE stock SET
        s_quantity = s_quantity - quantity + CASE WHEN s_quantity - quantity >= 10 THEN 0 ELSE 91 END,
        s_ytd = s_ytd + quantity,
        s_order_cnt = s_order_cnt + ordered,
        s_remote_cnt = s_remote_cnt + CASE WHEN supply = :w THEN 0 ELSE ordered END
    FROM (
        SELECT supply, item, sum(quantity)::integer AS quantity, count(*)::integer AS ordered
        FROM line GROUP BY supply, item ORDER BY supply, item
    ) AS wanted
    WHERE s_w_id = supply AND s_i_id = item
    RETURNING
        s_w_id, s_i_id, CASE :d::integer
            WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
            WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
            WHEN 9 THEN s_dist_09 ELSE s_dist_10
        END AS information
),
written AS (
    INSERT INTO order_line
    SELECT :o::integer, :d::integer, :w::integer, number, item, supply, NULL, quantity, quantity * i_price, information
    FROM line JOIN item ON i_id = item JOIN taken ON s_w_id = supply AND s_i_id = item
    RETURNING ol_amount
)
SELECT count(*) AS written, coalesce(sum(ol_amount), 0) * (1 - :c_discount::numeric) * (1 + :w_tax::numeric + :d_tax::numeric) AS total
FROM written \gset
-- Without that, a line that is missing is an item or its stock that is missing: an error, which ends the run. It comes when
-- it is executed, and not when it is prepared, as pgbench prepares all commands of a script before 16.
\if :unused
ROLLBACK;
\elif :written < :lines
SELECT ('an order has lines without an item or its stock: ' || :written::text)::boolean;
\else
COMMIT;
\endif
