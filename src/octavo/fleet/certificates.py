"""The fleet's own authority: only holders of its certificates may connect to the scheduler and the hosts.

Keys are elliptic (NIST P-256) and made here. They never leave the state directory, except for a host's own key, which
is sent to that host. Dask does not compare host names: every certificate of the authority is valid everywhere in the
fleet (docs/security.md).
"""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.errors import HostError
from octavo.home import make_directory, octavo_home, replace_file
from octavo.host.safe_read import read_text

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

# Certificates are valid from a day ago: a host whose clock is behind would refuse one that is valid only from now on.
_SLACK = timedelta(days=1)
_YEARS_OF_AUTHORITY = 10
_DAYS = 825
_MOST_BYTES = 64 * 1024

AUTHORITY = "ca"
COORDINATOR = "coordinator"
HOST = "host"


def directory() -> Path:
    """The directory of this machine's certificates and keys; only its owner can read it."""
    return make_directory(octavo_home() / "fleet", 0o700)


def has_authority() -> bool:
    """Whether the authority's key is on this machine."""
    return _file(f"{AUTHORITY}.key").exists()


def authority_digest() -> str | None:
    """The sha256 of the authority's certificate on this machine, or None. Only that authority's certificates are
    accepted."""
    try:
        return hashlib.sha256(_read(f"{AUTHORITY}.pem").encode()).hexdigest()
    except HostError:
        return None


def make_authority() -> None:
    """Makes the authority and the coordinator's certificate. Certificates of an earlier authority become invalid."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("authority of an Octavo fleet")
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + timedelta(days=365 * _YEARS_OF_AUTHORITY))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(f"{AUTHORITY}.key", _private(key))
    _write(f"{AUTHORITY}.pem", _public(certificate))
    issue(COORDINATOR)


def issue(name: str) -> dict[str, str]:
    """Makes a certificate and key for that name; returns the texts of the files that its owner needs.

    The coordinator's are also written here. Raises HostError without the authority's key.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    new_ones = "make new ones: octavo fleet init --renew hosts.toml"
    try:
        authority_key = serialization.load_pem_private_key(_read(f"{AUTHORITY}.key").encode(), password=None)
        authority = x509.load_pem_x509_certificate(_read(f"{AUTHORITY}.pem").encode())
    except (ValueError, TypeError):  # the last for a key with a password
        raise HostError(f"{_file(AUTHORITY)}.key or .pem is damaged; {new_ones}") from None
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    if authority.public_key() != authority_key.public_key():  # interrupted while writing the two
        raise HostError(f"{_file(AUTHORITY)}.key and .pem do not match; {new_ones}")
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
            critical=False,
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    texts = {"ca.pem": _read("ca.pem"), "certificate": _public(certificate), "key": _private(key)}
    if name == COORDINATOR:
        _write(f"{COORDINATOR}.key", texts["key"])
        _write(f"{COORDINATOR}.pem", texts["certificate"])
    return texts


def install(texts: dict[str, str]) -> None:
    """Writes the files that `issue` made for this host. Raises HostError when the texts are not certificates and a
    key, or when this machine has a fleet of its own, which would then trust the other one's certificates."""
    try:
        files = {"ca.pem": texts["ca.pem"], f"{HOST}.pem": texts["certificate"], f"{HOST}.key": texts["key"]}
        if any(
            not (text.isascii() and text.startswith("-----BEGIN ") and len(text) <= _MOST_BYTES)
            for text in files.values()
        ):
            raise ValueError
    except (KeyError, TypeError, AttributeError, ValueError):
        raise HostError("this is not a certificate of a fleet; octavo fleet init sends them") from None
    if has_authority() and _read(f"{AUTHORITY}.pem") != files["ca.pem"]:
        raise HostError(
            "this machine is the coordinator of another fleet; take part with another OCTAVO_HOME, or give that fleet "
            f"up: rm {_file(AUTHORITY)}.key"
        )
    for name, text in files.items():
        _write(name, text)


def paths_of(role: str) -> tuple[str, str, str]:
    """The paths of the authority's certificate and of the role's own certificate and key.

    Raises HostError when one is missing or expired, or when users other than the owner can read the key.
    """
    found = [_file(name) for name in (f"{AUTHORITY}.pem", f"{role}.pem", f"{role}.key")]
    for path in found:
        _read(path.name)
    if found[2].stat().st_mode & 0o077:
        raise HostError(
            f"{found[2]} may be read by others; chmod 600 it, and make new ones with: octavo fleet init hosts.toml"
        )
    _refuse_expired(found[0], "octavo fleet init --renew")
    _refuse_expired(found[1], "octavo fleet init")
    return str(found[0]), str(found[1]), str(found[2])


def _refuse_expired(path: Path, way_out: str) -> None:
    """Raises HostError when the file is not a certificate or has expired: the TLS handshake would fail without a
    reason."""
    from cryptography import x509

    try:
        end = x509.load_pem_x509_certificate(_read(path.name).encode()).not_valid_after_utc
    except ValueError:
        raise HostError(f"{path} is not a certificate; make a new one: {way_out} hosts.toml") from None
    if end <= datetime.now(UTC):
        raise HostError(f"{path} expired on {end:%Y-%m-%d}; make a new one: {way_out} hosts.toml")


def _usage(*, authority: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _name(common: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _private(key: "ec.EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _public(certificate: "x509.Certificate") -> str:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _file(name: str) -> Path:
    return directory() / name


def _read(name: str) -> str:
    path = _file(name)
    try:
        return read_text(path, _MOST_BYTES)
    except FileNotFoundError:
        raise HostError(f"{path} does not exist; octavo fleet init hosts.toml makes and sends certificates") from None
    except (OSError, ValueError) as error:
        raise HostError(f"{path} cannot be read: {error}") from None


def _write(name: str, text: str) -> None:
    try:
        replace_file(_file(name), text.encode(), durable=True, mode=0o600)
    except OSError as error:
        raise HostError(f"{_file(name)} cannot be written: {error.strerror}") from error
