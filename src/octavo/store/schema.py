"""The tables, the same on SQLite and PostgreSQL. A change here raises SCHEMA_VERSION."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

SCHEMA_VERSION = 5

# What brings a store of an earlier version to the next one, on either database; `{binary}` is its type of bytes.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: (
        "ALTER TABLE cell ADD COLUMN dataset TEXT NOT NULL DEFAULT ''",
        "UPDATE cell SET dataset = id",
        "ALTER TABLE trial ADD COLUMN part INTEGER NOT NULL DEFAULT 1",
    ),
    2: (
        "CREATE TABLE series (trial INTEGER NOT NULL REFERENCES trial (id), number INTEGER NOT NULL, "
        "metric TEXT NOT NULL, item TEXT, unit TEXT NOT NULL, seconds {binary} NOT NULL, numbers {binary} NOT NULL, "
        "PRIMARY KEY (trial, number))",
    ),
    3: (
        "ALTER TABLE trial ADD COLUMN identity TEXT",
        "CREATE UNIQUE INDEX trial_identity ON trial (identity)",
    ),
    4: (),
}
# What a migration does on PostgreSQL besides. SQLite has no other integers than those of 64 bits.
POSTGRESQL_MIGRATIONS: dict[int, tuple[str, ...]] = {4: ("ALTER TABLE series ALTER COLUMN trial TYPE BIGINT",)}

metadata = MetaData()

schema_version = Table("schema_version", metadata, Column("version", Integer, nullable=False))

run = Table(
    "run",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("token", Text, nullable=False),  # the journal of the process that works on it
    Column("seed", BigInteger, nullable=False),
    Column("started", Float, nullable=False),  # seconds since the epoch, as all times here
    Column("ended", Float),
    Column("plan", JSON, nullable=False),
    Column("plan_text", Text, nullable=False),
    Column("repeat", Text, nullable=False),
    Column("metrics", JSON, nullable=False),
    Column("environment", JSON, nullable=False),
)

cell = Table(
    "cell",
    metadata,
    Column("run", Text, ForeignKey("run.id"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("label", Text, nullable=False),
    Column("condition", Text, nullable=False),
    Column("levels", JSON, nullable=False),
    Column("baseline", Boolean, nullable=False),
    Column("control", Boolean, nullable=False),
    Column("dataset", Text, nullable=False),  # cells that share it share their loads
)

# Settings and build manifests, stored once however many trials share them.
document = Table(
    "document",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("content", JSON, nullable=False),
)

trial = Table(
    "trial",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("run", Text, ForeignKey("run.id"), nullable=False),
    Column("cell", Text, nullable=False),
    Column("round", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("load", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("started", Float, nullable=False),
    Column("ended", Float, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("settings", Text, ForeignKey("document.digest")),
    Column("build", Text, ForeignKey("document.digest")),
    Column("facts", JSON, nullable=False),
    Column("part", Integer, nullable=False),
    Column("identity", Text),  # what makes it the same trial when it arrives again
    Index("trial_identity", "identity", unique=True),
    Index("trial_of_run", "run", "id"),
)


def _of_a_trial() -> ForeignKeyConstraint:
    """Only on SQLite. PostgreSQL looks for the trial once for each of its 240 rows: 3 ms of CPU time instead of 1.
    They are inserted in the transaction that inserts their trial, with the number that this returned."""
    return ForeignKeyConstraint(["trial"], ["trial.id"]).ddl_if(dialect="sqlite")


observation = Table(
    "observation",
    metadata,
    Column("trial", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("item", Text),
    Column("repetition", Integer, nullable=False),
    Column("metric", Text, nullable=False),
    Column("value", Float, nullable=False),
    Column("unit", Text, nullable=False),
    _of_a_trial(),
)

# A figure as it went during a trial, packed as `octavo.series` says.
series = Table(
    "series",
    metadata,
    Column("trial", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("metric", Text, nullable=False),
    Column("item", Text),
    Column("unit", Text, nullable=False),
    Column("seconds", LargeBinary, nullable=False),
    Column("numbers", LargeBinary, nullable=False),
    _of_a_trial(),
)
