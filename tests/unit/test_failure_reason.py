"""A workload's own mistake fails its trial with its location; one that fails every trial ends the run."""

from pathlib import Path

import pytest

from octavo.errors import HostError, OctavoError
from octavo.lab.failure_reason import failure_reason


def caught(error: Exception) -> Exception:
    try:
        raise error
    except Exception as found:
        return found


def test_a_mistake_names_its_type_file_and_line() -> None:
    found = failure_reason(caught(KeyError("rows")))
    assert found.startswith("KeyError: 'rows' (")
    assert f"{Path(__file__)}, line " in found
    assert "\n" not in failure_reason(caught(ValueError("two\nlines")))


def test_a_servers_message_is_one_line_that_no_terminal_obeys() -> None:
    assert failure_reason(caught(OctavoError("broken\x1b[31m\n  page"))) == "broken\ufffd[31m page"


def test_what_is_expected_is_its_own_text() -> None:
    assert failure_reason(caught(OctavoError("the server died"))) == "the server died"


@pytest.mark.parametrize("error", [HostError("the disk is full"), OSError(28, "No space left on device")])
def test_what_fails_every_later_trial_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        failure_reason(error)


def test_a_process_that_has_ended_fails_its_trial_alone() -> None:
    """A server that died before its CPUs were read, for example."""
    found = failure_reason(caught(ProcessLookupError(3, "No such process")))
    assert found.startswith("ProcessLookupError: [Errno 3] No such process (")
