"""The sizes with which PostgreSQL can be built and initialised (configure --help, initdb's documentation,
meson_options.txt)."""

# The defaults of BLCKSZ and XLOG_BLCKSZ in bytes (configure --help, meson_options.txt).
DEFAULT_BLOCK = 8192

DATA_BLOCKS = ("1kB", "2kB", "4kB", "8kB", "16kB", "32kB")
WAL_BLOCKS = ("1kB", "2kB", "4kB", "8kB", "16kB", "32kB", "64kB")
DATA_SEGMENTS = ("1GB", "2GB", "4GB", "8GB", "16GB", "32GB", "64GB")
WAL_SEGMENTS = ("1MB", "2MB", "4MB", "8MB", "16MB", "32MB", "64MB", "128MB", "256MB", "512MB", "1GB")

# The major versions that we have built and run.
MAJOR_VERSIONS = ("18", "17", "15")
