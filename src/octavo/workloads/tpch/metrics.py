"""The names of TPC-H's metrics, shared with the published results (imports.vondra_tpch)."""

from octavo.observation import Metric

SECONDS = Metric("seconds", "time", "s", "lower")
MINIMUM = Metric("seconds_min", "time, the shortest of the repetitions", "s", "lower")
MEDIAN = Metric("seconds_median", "time, the median of the repetitions", "s", "lower")
TIMED_OUT = Metric("timed_out", "runs that were cancelled at the timeout", "1", "lower", "limit")
CAPTURE = Metric("plan_capture_ratio", "time with plan capture over time without it", "1", "lower")
ROWS = Metric("rows", "rows of the result", "1")
WAL_BYTES = Metric("wal_bytes", "WAL", "bytes", "lower")
WAL_RECORDS = Metric("wal_record_bytes", "WAL: records without images", "bytes", "lower")
WAL_IMAGES = Metric("wal_image_bytes", "WAL: full-page images", "bytes", "lower")
WAL_HEADERS = Metric("wal_page_header_bytes", "WAL: page headers", "bytes", "lower")
WAL_READ = Metric("wal_read_share", "share of the step's WAL that was analysed", "fraction")
WAITED = Metric("generator_seconds", "time that COPY waited for the generator", "s", "lower")
SIZES = tuple(
    Metric(f"{what}_bytes", f"size of {words}", "bytes", "lower")
    for what, words in (("table", "tables"), ("index", "indexes"), ("database", "the database"))
)
