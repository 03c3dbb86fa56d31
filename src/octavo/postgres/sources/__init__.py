"""The kinds of sources. To add one, write a file here and add a line to its table."""

from octavo.postgres.sources import debian, git, tarball, tree, upstream
from octavo.postgres.sources.base import FetchedKind, LocalKind

# The kinds for `--source`: the first one that recognises the path is used.
LOCAL_KINDS: tuple[LocalKind, ...] = (tarball, git, tree)

# The kinds that are tried, in this order, when the user gives no source.
FETCHED_KINDS: tuple[FetchedKind, ...] = (debian, upstream)
