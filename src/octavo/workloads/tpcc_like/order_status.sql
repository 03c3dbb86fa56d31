-- Order-Status (clause 2.6): a customer's last order, the customer known by the last name in 60 of 100 cases.
\set w random(1, :warehouses)
\set d random(1, 10)
\set c ((random(0, 1023) | random(1, 3000)) + :nurand_customer) % 3000 + 1
\set name ((random(0, 255) | random(0, 999)) + :nurand_name) % 1000
\set by_name random(1, 100)
BEGIN;
\if :by_name <= 60
SELECT c_id AS c, c_balance, c_first, c_middle FROM (
    SELECT
        c_id, c_balance, c_first, c_middle,
        row_number() OVER (ORDER BY c_first) AS place, count(*) OVER () AS namesakes
    FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_last = last_name(:name)
) AS found WHERE place = (namesakes + 1) / 2 \gset
\else
SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
\endif
SELECT o_id AS o, o_entry_d, o_carrier_id FROM orders
WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c ORDER BY o_id DESC LIMIT 1 \gset
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o;
COMMIT;
