from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.lab.validity import first_doubt
from octavo.lab.validity.evidence import Evidence
from octavo.plan.thresholds import Thresholds
from octavo.postgres.cluster import Server
from octavo.workload_support.pgbench_client import parse, scripts
from octavo.workloads import custom, pgbench
from octavo.workloads.base import WorkloadResult

# The output of pgbench of PostgreSQL 18.
OUTPUT = """\
pgbench (18.6)
transaction type: <builtin: select only>
scaling factor: 25
query mode: prepared
number of clients: 4
number of threads: 2
maximum number of tries: 1
duration: 8 s
number of transactions actually processed: 160000
number of failed transactions: 0 (0.000%)
latency average = 0.200 ms
initial connection time = 9.000 ms
tps = 20000.000000 (without initial connection time)
"""


def result(output: str = OUTPUT, errors: str = "", returncode: int = 0) -> WorkloadResult:
    return parse(output, errors, returncode, 8, 3.5)


def test_pgbenchs_words_become_observations() -> None:
    parsed = result()
    values = {observation.metric: observation.value for observation in parsed.observations}
    assert values == {"tps": 20000.0, "latency_avg_ms": 0.2, "transactions": 160000}
    assert parsed.seconds == pytest.approx(8.0)
    assert parsed.problems == ()


@pytest.mark.parametrize(
    ("output", "errors"), [("", ""), ("", "pgbench: fatal: connection failed"), ("tps = 0.0 ", "")]
)
def test_nothing_measured_is_an_error(output: str, errors: str) -> None:
    with pytest.raises(OctavoError, match=errors or "measured nothing"):
        result(output, errors, 1)


def evidence(measured: WorkloadResult, **changes: object) -> Evidence:
    values: dict[str, object] = {
        "result": measured,
        "numbers": {"cpu_steal_share": 0.001}, "server_alive": True, "started_before": 1.5, "started_after": 1.5,
        "server_log": "ready", "thresholds": Thresholds(),
    }  # fmt: skip
    return Evidence(**{**values, **changes})  # type: ignore[arg-type]


def test_a_sound_trial_is_believed() -> None:
    assert first_doubt(evidence(result())) is None


@pytest.mark.parametrize(
    ("doubtful", "reason"),
    [
        (evidence(result(OUTPUT.replace("160000", "1400"))), "ran 0.07 s of the 8 s requested"),
        (evidence(result(OUTPUT.replace("160000", "80").replace("20000.0", "10.0"))), "only 80 transactions"),
        (evidence(result(OUTPUT.replace("transactions: 0 ", "transactions: 3 "))), "3 transactions failed"),
        (evidence(result(errors="pgbench: error: client 1 aborted")), "client 1 aborted"),
        (evidence(result(returncode=2)), "exit code 2"),
        (evidence(result(), numbers={"cpu_steal_share": 0.086}), "took 8.60 % of the CPU"),
        (evidence(result(), server_alive=False), "server died"),
        (evidence(result(), started_after=None), "server died"),
        (evidence(result(), started_after=2.5), "server restarted"),
        (
            evidence(result(), server_log="LOG:  terminating any other active server processes"),
            "server restarted",
        ),
    ],
)
def test_what_cannot_be_believed_is_invalid_with_its_reason(doubtful: Evidence, reason: str) -> None:
    assert reason in str(first_doubt(doubtful))


def test_scripts_of_a_workloads_own_are_files_with_weights(journal: Journal, account: Account) -> None:
    server: Any = SimpleNamespace(journal=journal, account=account)
    weighted = [("SELECT :rows;", 9), ("SELECT 0;", 0), ("SELECT 1;", 1)]
    with scripts(server, *weighted, rows="20") as options:
        assert options[0] == "--define=rows=20"
        found = [option.removeprefix("--file=").split("@") for option in options[1:]]
        assert [(Path(path).read_text(), weight) for path, weight in found] == [
            ("SELECT :rows;", "9"),
            ("SELECT 1;", "1"),
        ]
    assert not any(Path(path).exists() for path, _ in found)


def test_an_at_sign_in_the_name_of_a_users_script_is_no_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pgbench refused the file: invalid weight specification."""

    @contextmanager
    def lent(paths: Sequence[Path], *_: object) -> Generator[list[Path], None, None]:
        yield [tmp_path / path.name for path in paths]

    monkeypatch.setattr(custom.files, "lent", lent)
    server: Any = SimpleNamespace(journal=None, account=None)
    levels = {"archive": "/x/a.dump", "script": "/x/at@home.sql + /x/b.sql@3"}
    with custom._lent_scripts(server, levels) as what:  # pyright: ignore[reportPrivateUsage]
        assert what == [f"--file={tmp_path}/at@home.sql@1", f"--file={tmp_path}/b.sql@3"]


def test_churn_reaches_more_accounts_than_an_int_can_number() -> None:
    """pgbench's own key is a bigint from scale 20000 on."""
    executed: list[str] = []

    class Asked:
        def execute(self, statement: str) -> None:
            executed.append(statement)

    pgbench._churn(cast("Server", Asked()), 3_000_000_000, 1, load=1)  # pyright: ignore[reportPrivateUsage]
    updates = [statement for statement in executed if statement.startswith("WITH")]
    assert len(updates) == 30_000_000 / 20_000
    assert "floor(random() * 3000000000)::bigint" in updates[0]
