"""The kinds of sources. A new kind is one file here and a line in its table."""

from octavo.postgres.sources import debian, git, tarball, tree, upstream
from octavo.postgres.sources.base import FetchedKind, LocalKind

# What `--source` takes: the first that recognises the path.
LOCAL_KINDS: tuple[LocalKind, ...] = (tarball, git, tree)

# What is asked, in this order, when the user gives nothing.
FETCHED_KINDS: tuple[FetchedKind, ...] = (debian, upstream)
