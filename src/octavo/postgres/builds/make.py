"""Builds on demand: from the cache if it has them, otherwise made now, together if that is faster."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

from octavo.errors import OctavoError, UsageError
from octavo.host.journal import Journal
from octavo.postgres.builds import cross, flags, recipe, traced, training
from octavo.postgres.builds.cache import Build, key_of, locked, publish, read_build, unpublished
from octavo.postgres.builds.findings import shipped
from octavo.postgres.builds.installation import make_manifest
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.stages import BuildStep, Stages, costs
from octavo.postgres.builds.toolchain import check_tools, describe_compiler
from octavo.postgres.builds.usage import note_use
from octavo.postgres.builds.worker_client import NotShareableHere, WorkerClient, open_worker
from octavo.postgres.source import Source, find_source


@dataclass(frozen=True, slots=True)
class Planned:
    """A build with everything that it depends on. Its name is its key in the cache."""

    spec: BuildSpec
    source: Source
    ingredients: dict[str, Any]

    @property
    def name(self) -> str:
        """The directory's name: version, sizes, and the key."""
        return f"{self.source.version}-{self.spec.sizes.label}-{self.ingredients['key']}"

    @property
    def family(self) -> str:
        """The common key of builds that differ only in their sizes."""
        return key_of({name: value for name, value in self.ingredients.items() if name not in _SIZES})


# Incremented when builds of the same ingredients differ from before, so that cached builds are made again.
_REVISION = 2

# How a build was made, as in its manifest.
FROM_SCRATCH = "from scratch"

_SIZES = ("data_block", "wal_block", "data_segment", "key")


Report = Callable[[BuildStep], None]


def quiet(*_: object) -> None:
    """Reports nothing."""


def ensure_build(
    spec: BuildSpec,
    journal: Journal,
    *,
    local: Path | None = None,
    progress: Report = quiet,
    waiting: Callable[[], None] = quiet,
) -> Build:
    """The build for the spec, made now if the cache does not have it. See `ensure_builds`."""
    return ensure_builds([spec], journal, local=local, progress=progress, waiting=waiting)[0]


def ensure_builds(
    specs: Sequence[BuildSpec],
    journal: Journal,
    *,
    local: Path | None = None,
    progress: Report = quiet,
    waiting: Callable[[], None] = quiet,
    ready: Callable[[Build], None] = quiet,
    notice: Callable[[str], None] = quiet,
) -> list[Build]:
    """The builds for the specs, in their order; those missing from the cache are made now.

    Missing builds that differ only in their sizes are made in one shared tree; if that is not possible (`notice` gets
    the reason), each is made from scratch. `ready` is called with each build once it is in the cache, `waiting` when
    another process is making one. Raises HostError when a tool or the source is missing, OctavoError when the
    compilation fails, or a build is removed meanwhile.
    """
    planned = plan_builds(specs, journal, local)
    families: dict[str, list[Planned]] = {}
    for build in {build.name: build for build in planned}.values():
        families.setdefault(build.family, []).append(build)
    for family in families.values():
        _ensure_family(family, journal, progress, waiting, ready, notice)
    found: list[Build] = []
    for each in planned:
        if (build := read_build(each.name)) is None:  # by octavo build rm, while others were made
            raise OctavoError(f"{each.name} was removed meanwhile; run this again")
        note_use(build)
        found.append(build)
    return found


def plan_builds(specs: Sequence[BuildSpec], journal: Journal, local: Path | None = None) -> list[Planned]:
    """The specs with their sources, compilers and keys."""
    sources: dict[str, Source] = {}
    compilers: dict[str, str] = {}
    planned: list[Planned] = []
    for spec in specs:
        if spec.version not in sources:
            sources[spec.version] = find_source(spec.version, journal, local)
        if spec.compiler not in compilers:
            compilers[spec.compiler] = describe_compiler(spec.compiler, journal)
        source = sources[spec.version]
        ingredients: dict[str, Any] = {
            "revision": _REVISION,
            "source_sha256": source.sha256,
            "data_block": spec.data_block,
            "wal_block": spec.wal_block,
            "data_segment": spec.data_segment,
            "options": recipe.options(spec, source.version),
            "compiler": compilers[spec.compiler],
            "compiler_command": spec.compiler,
        }
        if spec.traced:
            if not recipe.has_meson(source.version):
                raise UsageError(f"--traced needs PostgreSQL {traced.SINCE} or later, not {source.version}")
            ingredients["traced"] = traced.digest()
        if cross.machine_of(spec.compiler) and not recipe.has_meson(source.version):
            raise UsageError(f"{spec.compiler}: building for another machine needs 16 or later, not {source.version}")
        if training.is_trained(spec.options):
            if not recipe.has_meson(source.version):
                raise UsageError(f"{training.USE} needs PostgreSQL 16 or later, not {source.version}")
            ingredients["trained"] = training.digest()
        ingredients["key"] = key_of(ingredients)
        planned.append(Planned(replace(spec, version=source.version), source, ingredients))
    return planned


def _ensure_family(
    family: Sequence[Planned],
    journal: Journal,
    progress: Report,
    waiting: Callable[[], None],
    ready: Callable[[Build], None],
    notice: Callable[[str], None],
) -> None:
    with ExitStack() as locks:
        # All processes use the same order, so that two of them cannot deadlock over the same builds.
        for build in sorted(family, key=lambda build: build.name):
            if read_build(build.name) is None:
                locks.enter_context(locked(build.name, waiting))
        missing = [build for build in family if read_build(build.name) is None]
        # A profile belongs to the code of one size.
        shared = recipe.has_meson(family[0].source.version) and not training.is_trained(family[0].spec.options)
        if len(missing) > 1 and shared:
            try:
                _make_together(missing, journal, progress, ready)
            except NotShareableHere as reason:
                notice(f"{reason}: every build is made from scratch")
        for build in missing:
            if read_build(build.name) is None:
                ready(make_from_scratch(build, journal, progress))


def make_from_scratch(planned: Planned, journal: Journal, progress: Report = quiet) -> Build:
    """Makes one build by itself and adds it to the cache."""
    cached = not training.is_trained(planned.spec.options)  # no other compilation has the same profile
    with made_from_scratch(planned, journal, progress, cached=cached) as (root, digests):
        manifest = make_manifest(root, planned.source, planned.ingredients, FROM_SCRATCH, journal, digests)
        return publish(root, planned.name, manifest)


@contextmanager
def made_from_scratch(
    planned: Planned, journal: Journal, progress: Report = quiet, *, cached: bool = True
) -> Generator[tuple[Path, dict[str, str]], None, None]:
    """Yields one build made by itself, a copy of ours that is removed at the end, and its files' sha256.

    `cached`: whether ccache is used.
    """
    check_tools(meson=recipe.has_meson(planned.source.version))
    digests: dict[str, str] = {}
    with (
        unpublished(planned.name, journal) as root,
        open_worker(planned.name, f"PostgreSQL {planned.spec.version}", journal, builds=1) as place,
    ):
        _make(place, [planned], progress, lambda number: digests.update(place.copy(number, root)), cached=cached)
        yield root, digests


def _make_together(
    missing: Sequence[Planned], journal: Journal, progress: Report, ready: Callable[[Build], None]
) -> None:
    check_tools(meson=True)
    first = missing[0]
    how = f"in a tree shared with {len(missing) - 1} other sizes"
    earlier: list[tuple[Path, dict[str, str]]] = []

    def finished(number: int) -> None:
        build = missing[number]
        with unpublished(build.name, journal) as root:
            digests = place.copy(number, root, earlier[0] if earlier else None)
            manifest = make_manifest(root, build.source, build.ingredients, how, journal, digests)
            made = publish(root, build.name, manifest)
        earlier.append((made.prefix, digests))
        ready(made)

    name = f"{first.source.version}-together-{first.family}"
    with open_worker(name, f"PostgreSQL {first.spec.version}", journal, builds=len(missing)) as place:
        _make(place, missing, progress, finished)


def _whose_cache(planned: Planned) -> str:
    """The owner of the results in the compiler's cache: the source, with compiler, flags and options unless these are
    harmless."""
    spec, whose = planned.spec, planned.source.whose
    if flags.are_harmless(spec.compiler, spec.flags) and all(map(flags.is_harmless, spec.options)):
        return whose
    return f"{whose}, compiled by {' '.join((spec.compiler, *spec.flags, *spec.options))}"


def _make(
    place: WorkerClient,
    planned: Sequence[Planned],
    progress: Report,
    finished: Callable[[int], None],
    *,
    cached: bool = True,
) -> None:
    """Makes builds that differ only in their sizes. `finished` is called once with the number of each."""
    first = planned[0]
    trained = training.is_trained(first.spec.options)
    asked = {
        "compiler": first.spec.compiler,
        "compiled_by": first.ingredients["compiler"],
        "spec": asdict(first.spec),
        "version": first.source.version,
        "sha256": first.source.sha256,
        "traced": traced.header() if first.spec.traced else None,
        "training": training.files() if trained else None,
        "sizes": [astuple(each.spec.sizes) for each in planned],
    }
    pending = set(range(len(planned)))

    def ready(number: int) -> None:
        if number in pending:
            pending.remove(number)
            finished(number)

    cache = _whose_cache(first) if cached else None
    stages = Stages(costs(len(planned), known=bool(shipped(first.source.version)), trained=trained), progress)
    place.make(asked, first.source.tarball, cache=cache, progress=stages, ready=ready)
    if pending:
        raise OctavoError(f"the build of {place.subject} ended before everything was made")
