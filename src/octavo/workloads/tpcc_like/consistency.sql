-- The specification's consistency conditions: one row for each that is violated, with how often. Clauses 3.3.2.1 to
-- 3.3.2.10 and 3.3.2.12; the eleventh holds for fresh data only. And clause 4.3.3.1's numbers of rows that never change:
-- what is lost there, no sum misses.
WITH district_orders AS (
    SELECT o_w_id AS w, o_d_id AS d, max(o_id) AS newest, sum(o_ol_cnt) AS line_count FROM orders GROUP BY 1, 2
),
district_new AS (
    SELECT no_w_id AS w, no_d_id AS d, min(no_o_id) AS oldest, max(no_o_id) AS newest, count(*) AS number
    FROM new_order GROUP BY 1, 2
),
order_lines AS MATERIALIZED (
    SELECT
        ol_w_id AS w, ol_d_id AS d, ol_o_id AS o, count(*) AS number, count(ol_delivery_d) AS delivered,
        coalesce(sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL), 0) AS billed
    FROM order_line GROUP BY 1, 2, 3
),
paid AS MATERIALIZED (
    SELECT h_w_id AS w, h_d_id AS d, h_c_w_id AS cw, h_c_d_id AS cd, h_c_id AS c, sum(h_amount) AS amount
    FROM history GROUP BY 1, 2, 3, 4, 5
),
whole_orders AS MATERIALIZED (
    SELECT o_w_id, o_d_id, o_c_id, o_carrier_id, o_ol_cnt, no_o_id, number, delivered, billed
    FROM orders
    FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
    FULL JOIN order_lines ON w = o_w_id AND d = o_d_id AND o = o_id
),
customers AS MATERIALIZED (
    -- Bills and payments of a customer who is not there are a violation, too.
    SELECT c_balance, c_ytd_payment, coalesce(billed, 0) AS billed, coalesce(amount, 0) AS amount
    FROM customer
    FULL JOIN (
        SELECT o_w_id, o_d_id, o_c_id, sum(billed) AS billed FROM whole_orders WHERE o_c_id IS NOT NULL GROUP BY 1, 2, 3
    ) AS bills ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
    FULL JOIN (SELECT cw, cd, c, sum(amount) AS amount FROM paid GROUP BY 1, 2, 3) AS payments
        ON cw = coalesce(c_w_id, o_w_id) AND cd = coalesce(c_d_id, o_d_id) AND c = coalesce(c_id, o_c_id)
),
counted (clause, what, violations) AS (
    SELECT '3.3.2.1', 'W_YTD is the sum of D_YTD', count(*) FROM warehouse
    WHERE w_ytd IS DISTINCT FROM (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)
    UNION ALL
    SELECT '3.3.2.2', 'D_NEXT_O_ID follows the newest order and new order', count(*) FROM district
    LEFT JOIN district_orders AS o ON o.w = d_w_id AND o.d = d_id
    LEFT JOIN district_new AS n ON n.w = d_w_id AND n.d = d_id
    WHERE o.newest IS DISTINCT FROM d_next_o_id - 1 OR n.newest <> d_next_o_id - 1
    UNION ALL
    SELECT '3.3.2.3', 'new orders have no gap', count(*) FROM district_new WHERE newest - oldest + 1 <> number
    UNION ALL
    SELECT '3.3.2.4', 'a district has as many order lines as O_OL_CNT sums up to', count(*) FROM district_orders AS o
    FULL JOIN (SELECT w, d, sum(number) AS number FROM order_lines GROUP BY 1, 2) AS l ON l.w = o.w AND l.d = o.d
    WHERE line_count IS DISTINCT FROM number
    UNION ALL
    SELECT '3.3.2.5', 'an order without a carrier is a new order, and no other one', count(*) FROM whole_orders
    WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)
    UNION ALL
    SELECT '3.3.2.6', 'an order has O_OL_CNT lines', count(*) FROM whole_orders WHERE o_ol_cnt IS DISTINCT FROM number
    UNION ALL
    SELECT '3.3.2.7', 'the lines of an order with a carrier, and no others, are delivered', count(*) FROM whole_orders
    WHERE delivered IS DISTINCT FROM CASE WHEN o_carrier_id IS NULL THEN 0 ELSE number END
    UNION ALL
    SELECT '3.3.2.8', 'W_YTD is the sum of the payments', count(*) FROM warehouse
    FULL JOIN (SELECT w, sum(amount) AS amount FROM paid GROUP BY 1) AS p ON w = w_id
    WHERE w_ytd IS DISTINCT FROM amount
    UNION ALL
    SELECT '3.3.2.9', 'D_YTD is the sum of the payments', count(*) FROM district
    FULL JOIN (SELECT w, d, sum(amount) AS amount FROM paid GROUP BY 1, 2) AS p ON w = d_w_id AND d = d_id
    WHERE d_ytd IS DISTINCT FROM amount
    UNION ALL
    SELECT '3.3.2.10', 'C_BALANCE is what was delivered less what was paid', count(*) FROM customers
    WHERE c_balance IS DISTINCT FROM billed - amount
    UNION ALL
    SELECT '3.3.2.12', 'C_BALANCE and C_YTD_PAYMENT are what was delivered', count(*) FROM customers
    WHERE c_balance + c_ytd_payment IS DISTINCT FROM billed
    UNION ALL
    SELECT '4.3.3.1', 'a warehouse has 10 districts, 30,000 customers and 100,000 stocks', count(*) FROM warehouse
    WHERE (SELECT count(*) FROM district WHERE d_w_id = w_id) <> 10
        OR (SELECT count(*) FROM customer WHERE c_w_id = w_id) <> 30000
        OR (SELECT count(*) FROM stock WHERE s_w_id = w_id) <> 100000
    UNION ALL
    SELECT '4.3.3.1', 'there are 100,000 items', (count(*) <> 100000)::integer FROM item
)
SELECT clause, what, violations FROM counted WHERE violations > 0
