"""The software bill of materials: SPDX 2.3 as JSON (https://spdx.github.io/spdx-spec/v2.3/)."""

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from octavo import __version__
from octavo.packaging.names import PackageNames
from octavo.postgres.sources.upstream import ADDRESS, known_digests

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "octavo.packaging")


def spdx(
    names: PackageNames, manifest: Mapping[str, Any], prefix: Path, needed: Iterable[str], epoch: int
) -> dict[str, Any]:
    """The document: the package with a digest of each of its files, its source, the libraries it needs by SONAME.

    Paths are relative to the prefix. It is dated `epoch` (seconds), and its namespace follows from its content.
    """
    files = [
        _file(number, path, prefix)
        for number, path in enumerate(sorted(prefix.rglob("*")), 1)
        if path.is_file() and not path.is_symlink()
    ]
    # Section 7.9: the SHA-1 of the files' SHA-1s, sorted and joined.
    digests = sorted(file["checksums"][0]["checksumValue"] for file in files)
    verification = _digest("sha1", "".join(digests).encode())
    package = {
        "SPDXID": "SPDXRef-Package",
        "name": names.package,
        "versionInfo": names.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": True,
        "packageVerificationCode": {
            "packageVerificationCodeValue": verification,
            "packageVerificationCodeExcludedFiles": ["./share/doc/sbom.spdx.json"],
        },
        "licenseConcluded": "NOASSERTION",
        "licenseInfoFromFiles": ["NOASSERTION"],
        "licenseDeclared": "PostgreSQL",
        "copyrightText": "NOASSERTION",
        "comment": f"{manifest['data_block']} data blocks, {manifest['wal_block']} WAL blocks, {manifest['compiler']}; "
        "share/doc/build.json has all options, share/doc/COPYRIGHT the licences",
    }
    released = known_digests().get(names.release) == manifest["source_sha256"]  # and not a source of the user's own
    source = {
        "SPDXID": "SPDXRef-Source",
        "name": "postgresql",
        "versionInfo": names.release,
        "downloadLocation": f"{ADDRESS}/v{names.release}/" if released else "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": manifest["source_sha256"]}],
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "PostgreSQL",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "SECURITY",
                "referenceType": "cpe23Type",
                "referenceLocator": f"cpe:2.3:a:postgresql:postgresql:{names.release}:*:*:*:*:*:*:*",
            }
        ],
    }
    libraries: list[dict[str, Any]] = [
        {
            "SPDXID": f"SPDXRef-Library-{number}",
            "name": soname,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION",
        }
        for number, soname in enumerate(needed, 1)
    ]
    relationships = [
        _relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package"),
        _relationship("SPDXRef-Package", "GENERATED_FROM", "SPDXRef-Source"),
        *(_relationship("SPDXRef-Package", "DYNAMIC_LINK", library["SPDXID"]) for library in libraries),
        *(_relationship("SPDXRef-Package", "CONTAINS", file["SPDXID"]) for file in files),
    ]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{names.package}-{names.version}",
        "documentNamespace": f"urn:uuid:{uuid.uuid5(_NAMESPACE, f'{names.package} {names.version} {verification}')}",
        "creationInfo": {
            "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [f"Tool: octavo-{__version__}"],
        },
        "packages": [package, source, *libraries],
        "files": files,
        "relationships": relationships,
    }


def _file(number: int, path: Path, prefix: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {
        "SPDXID": f"SPDXRef-File-{number}",
        "fileName": f"./{path.relative_to(prefix)}",
        "checksums": [  # section 8.4: SHA-1 is the one that must be there
            {"algorithm": "SHA1", "checksumValue": _digest("sha1", content)},
            {"algorithm": "SHA256", "checksumValue": _digest("sha256", content)},
        ],
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }


def _digest(algorithm: str, content: bytes) -> str:
    return hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()


def _relationship(subject: str, kind: str, object: str) -> dict[str, str]:
    return {"spdxElementId": subject, "relationshipType": kind, "relatedSpdxElement": object}
