"""Commands on hosts, with other commands in place of ssh: what they read and write, and what goes wrong."""

import pytest

from octavo.host.journal import TOKEN_VARIABLE, Journal
from octavo.remote.hosts_file import RemoteHost
from octavo.remote.ssh import HostAnswer, on_each

HERE = ("env", "--")


def answers(
    journal: Journal, script: str, *hosts: RemoteHost, inputs: dict[str, bytes] | None = None
) -> dict[str, HostAnswer]:
    asked = on_each(hosts, lambda _: ["sh", "-c", script], journal, seconds=30, most_bytes=1000, inputs=inputs)
    return {answer.host.name: answer for answer in asked}


def test_each_host_reads_its_own_standard_input(journal: Journal) -> None:
    """More than a pipe holds, and an empty one if none is given."""
    hosts = [RemoteHost(name, name, through=HERE) for name in ("a", "b", "c")]
    found = answers(journal, "wc -c", *hosts, inputs={"a": b"x" * 200_000, "b": b"y"})
    assert {name: int(answer.output) for name, answer in found.items()} == {"a": 200_000, "b": 1, "c": 0}


def test_what_stays_there_is_not_ours(journal: Journal) -> None:
    found = answers(journal, f'echo "${{{TOKEN_VARIABLE}-none}}"', RemoteHost("a", "a", through=HERE))
    assert found["a"].output == b"none\n"


def test_output_is_bounded_while_it_is_read(journal: Journal) -> None:
    found = answers(journal, "exec yes", RemoteHost("a", "a", through=HERE))
    assert "more than 1000 B" in str(found["a"].failure)


def test_a_host_that_cannot_be_reached_does_not_end_the_others(journal: Journal) -> None:
    lost = RemoteHost("lost", "lost", through=("no-such-word",))
    found = answers(journal, "true", lost, RemoteHost("a", "a", through=HERE))
    assert "cannot start no-such-word" in str(found["lost"].failure)
    assert found["a"].failure is None


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("true", None),
        ("echo octavo: no room >&2; exit 3", "no room"),
        ("echo half; echo octavo: no room >&2; exit 3", "no room"),
        ("echo half; exit 3", "half"),
        ("exit 3", "no output (exit 3)"),
    ],
)
def test_why_a_command_failed(script: str, failure: str | None, journal: Journal) -> None:
    assert answers(journal, script, RemoteHost("a", "a", through=HERE))["a"].failure == failure
