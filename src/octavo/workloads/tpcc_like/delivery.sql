-- Delivery (clause 2.7): the oldest new order of each of a warehouse's ten districts. One delivery of a warehouse at a
-- time, as from the specification's queue: the next one sees what this one took.
\set w random(1, :warehouses)
\set carrier random(1, 10)
BEGIN;
SELECT pg_advisory_xact_lock(:w::bigint);
WITH oldest AS MATERIALIZED (
    SELECT district, (
        SELECT no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = district ORDER BY no_o_id LIMIT 1
    ) AS first_id
    FROM generate_series(1, 10) AS district
),
gone AS (
    DELETE FROM new_order USING oldest WHERE no_w_id = :w AND no_d_id = district AND no_o_id = first_id
    RETURNING no_d_id, no_o_id
),
carried AS (
    UPDATE orders SET o_carrier_id = :carrier::integer FROM gone WHERE o_w_id = :w AND o_d_id = no_d_id AND o_id = no_o_id
    RETURNING o_d_id, o_id, o_c_id
),
delivered AS (
    UPDATE order_line SET ol_delivery_d = current_timestamp FROM carried
    WHERE ol_w_id = :w AND ol_d_id = o_d_id AND ol_o_id = o_id
    RETURNING o_d_id, o_c_id, ol_amount
)
UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
FROM (SELECT o_d_id, o_c_id, sum(ol_amount) AS total FROM delivered GROUP BY o_d_id, o_c_id) AS bills
WHERE c_w_id = :w AND c_d_id = o_d_id AND c_id = o_c_id;
COMMIT;
