"""Certificates of the test servers, made anew by each process with trustme: no private key lies anywhere."""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trustme


@cache
def _authority() -> trustme.CA:
    import trustme

    return trustme.CA()


def client_tls() -> ssl.SSLContext:
    """Return a client context that trusts the test servers of this process and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate_pem())
    return context


def server_tls() -> ssl.SSLContext:
    """Return the context of the test servers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _authority().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


def certificate_pem() -> str:
    """Return the authority's certificate as text, for clients that want a file of trusted authorities."""
    return _authority().cert_pem.bytes().decode("ascii")
