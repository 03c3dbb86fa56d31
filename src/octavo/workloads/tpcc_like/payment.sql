-- Payment (clause 2.5): of a customer of this warehouse in 85 of 100 cases, known by the last name in 60 of 100. The
-- warehouse's row, which all payments want, is taken last.
\set w random(1, :warehouses)
\set d random(1, 10)
\set cents random(100, 500000)
\set elsewhere case when :warehouses > 1 and random(1, 100) > 85 then 1 else 0 end
\set cw case when :elsewhere = 1 then (:w - 1 + random(1, :warehouses - 1)) % :warehouses + 1 else :w end
\set cd case when :elsewhere = 1 then random(1, 10) else :d end
\set c ((random(0, 1023) | random(1, 3000)) + :nurand_customer) % 3000 + 1
\set name ((random(0, 255) | random(0, 999)) + :nurand_name) % 1000
\set by_name random(1, 100)
BEGIN;
\if :by_name <= 60
SELECT c_id AS c FROM (
    SELECT c_id, row_number() OVER (ORDER BY c_first) AS place, count(*) OVER () AS namesakes
    FROM customer WHERE c_w_id = :cw AND c_d_id = :cd AND c_last = last_name(:name)
) AS found WHERE place = (namesakes + 1) / 2 \gset
\endif
UPDATE customer SET
    c_balance = c_balance - :cents / 100.0,
    c_ytd_payment = c_ytd_payment + :cents / 100.0,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = CASE
        WHEN c_credit = 'BC' THEN left(
            concat_ws(' ', :c::text, :cd::text, :cw::text, :d::text, :w::text, (:cents / 100.0)::text, c_data), 500
        )
        ELSE c_data
    END
WHERE c_w_id = :cw AND c_d_id = :cd AND c_id = :c
RETURNING
    c_first, c_middle, c_last AS family, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
    c_credit_lim, c_discount, c_balance, left(c_data, 200);
UPDATE district SET d_ytd = d_ytd + :cents / 100.0 WHERE d_w_id = :w AND d_id = :d
RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip;
UPDATE warehouse SET w_ytd = w_ytd + :cents / 100.0 WHERE w_id = :w
RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip;
INSERT INTO history
SELECT :c::integer, :cd::integer, :cw::integer, :d::integer, :w::integer, current_timestamp, :cents / 100.0, w_name || '    ' || d_name
FROM warehouse JOIN district ON d_w_id = w_id WHERE w_id = :w AND d_id = :d;
COMMIT;
