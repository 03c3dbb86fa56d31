"""TPC-H's eight tables, their keys and indexes (TPC-H Standard Specification 3.0, clauses 1.2 to 1.5).

Columns and types are those of clause 1.4, in its order, which is also the generator's. Indexes are those that clause
1.5.4 allows: on foreign keys, and on columns with dates. Tables are in an order in which each refers only to earlier
ones.
"""

# Rows at scale factor 1 (clause 4.2.5); region and nation have the same number at every scale.
ROWS = {
    "region": 5, "nation": 25, "part": 200_000, "supplier": 10_000, "partsupp": 800_000, "customer": 150_000,
    "orders": 1_500_000, "lineitem": 6_001_215,
}  # fmt: skip

TABLES = {
    "region": "r_regionkey integer NOT NULL, r_name char(25) NOT NULL, r_comment varchar(152)",
    "nation": "n_nationkey integer NOT NULL, n_name char(25) NOT NULL, n_regionkey integer NOT NULL, "
    "n_comment varchar(152)",
    "part": "p_partkey integer NOT NULL, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL, "
    "p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size integer NOT NULL, "
    "p_container char(10) NOT NULL, p_retailprice decimal(15,2) NOT NULL, p_comment varchar(23) NOT NULL",
    "supplier": "s_suppkey integer NOT NULL, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL, "
    "s_nationkey integer NOT NULL, s_phone char(15) NOT NULL, s_acctbal decimal(15,2) NOT NULL, "
    "s_comment varchar(101) NOT NULL",
    "partsupp": "ps_partkey integer NOT NULL, ps_suppkey integer NOT NULL, ps_availqty integer NOT NULL, "
    "ps_supplycost decimal(15,2) NOT NULL, ps_comment varchar(199) NOT NULL",
    "customer": "c_custkey integer NOT NULL, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL, "
    "c_nationkey integer NOT NULL, c_phone char(15) NOT NULL, c_acctbal decimal(15,2) NOT NULL, "
    "c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL",
    "orders": "o_orderkey bigint NOT NULL, o_custkey integer NOT NULL, o_orderstatus char(1) NOT NULL, "
    "o_totalprice decimal(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL, "
    "o_clerk char(15) NOT NULL, o_shippriority integer NOT NULL, o_comment varchar(79) NOT NULL",
    "lineitem": "l_orderkey bigint NOT NULL, l_partkey integer NOT NULL, l_suppkey integer NOT NULL, "
    "l_linenumber integer NOT NULL, l_quantity decimal(15,2) NOT NULL, l_extendedprice decimal(15,2) NOT NULL, "
    "l_discount decimal(15,2) NOT NULL, l_tax decimal(15,2) NOT NULL, l_returnflag char(1) NOT NULL, "
    "l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL, "
    "l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, "
    "l_comment varchar(44) NOT NULL",
}

_PRIMARY = {
    "region": "r_regionkey", "nation": "n_nationkey", "part": "p_partkey", "supplier": "s_suppkey",
    "partsupp": "ps_partkey, ps_suppkey", "customer": "c_custkey", "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}  # fmt: skip
_FOREIGN = (
    ("nation", "n_regionkey", "region"), ("supplier", "s_nationkey", "nation"), ("partsupp", "ps_partkey", "part"),
    ("partsupp", "ps_suppkey", "supplier"), ("customer", "c_nationkey", "nation"), ("orders", "o_custkey", "customer"),
    ("lineitem", "l_orderkey", "orders"), ("lineitem", "l_partkey, l_suppkey", "partsupp"),
)  # fmt: skip
# Columns that are not the first of any primary key.
_INDEXED = (
    ("nation", "n_regionkey"), ("supplier", "s_nationkey"), ("partsupp", "ps_suppkey"), ("customer", "c_nationkey"),
    ("orders", "o_custkey"), ("orders", "o_orderdate"), ("lineitem", "l_partkey, l_suppkey"),
    ("lineitem", "l_suppkey"), ("lineitem", "l_shipdate"),
)  # fmt: skip

CREATE = tuple(f"CREATE TABLE {table} ({columns})" for table, columns in TABLES.items())
PRIMARY_KEYS = tuple(f"ALTER TABLE {table} ADD PRIMARY KEY ({columns})" for table, columns in _PRIMARY.items())
FOREIGN_KEYS = tuple(
    f"ALTER TABLE {table} ADD FOREIGN KEY ({columns}) REFERENCES {other}" for table, columns, other in _FOREIGN
)
INDEXES = tuple(f"CREATE INDEX ON {table} ({columns})" for table, columns in _INDEXED)
