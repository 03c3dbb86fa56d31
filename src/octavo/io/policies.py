"""The ways in which blocks become requests, by name."""

from collections.abc import Iterable
from dataclasses import dataclass

from octavo.errors import UsageError


@dataclass(frozen=True, slots=True)
class Policy:
    """A name for one way of joining blocks and one way of asking the kernel for them."""

    name: str
    about: str
    joining: str
    method: str
    writes: bool = False

    def refusal(self, *, write: bool, direct: bool) -> str | None:
        """Why it is not for writing, or not for O_DIRECT; None when it can be measured so."""
        if write and not self.writes:
            return f"{self.name} only reads; remove --write or choose another policy"
        if direct and self.method in ("cache-first", "advised"):
            return f"{self.name} uses the page cache, which --direct bypasses; remove one of them"
        return None


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("single", "every block is a request", "single", "plain", writes=True),
        Policy("run", "a run of consecutive blocks is a request", "run", "plain", writes=True),
        Policy(
            "coalesced",
            "neighbours are combined up to --max-request; holes of up to --hole blocks are read and discarded",
            "coalesced",
            "plain",
            writes=True,
        ),
        Policy("cache-first", "a combined request, then each block from the page cache", "coalesced", "cache-first"),
        Policy("fadvise", "single blocks, each announced --distance blocks ahead", "single", "advised"),
        Policy("preadv", "combined requests, each block into its own buffer", "coalesced", "vectored"),
        Policy("io_uring", "single blocks, --depth of them in flight", "single", "ring", writes=True),
        Policy("io_uring-coalesced", "combined requests, --depth of them in flight", "coalesced", "ring", writes=True),
    )
}  # fmt: skip


def find_policies(names: Iterable[str]) -> list[Policy]:
    """The policies with these names; `all` means every one. Raises UsageError for another name."""
    found: list[Policy] = []
    for name in (part.strip() for text in names for part in text.split(",")):
        if name == "all":
            found += POLICIES.values()
        elif name in POLICIES:
            found.append(POLICIES[name])
        else:
            raise UsageError(f"{name!r} is not a policy; choose from {', '.join(POLICIES)}, or all")
    return list(dict.fromkeys(found))
