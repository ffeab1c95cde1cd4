"""A private, empty environment for every test: none of the user's tokens, caches or proxies."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

_FOREIGN = ("HF_", "HUGGINGFACE_", "HUGGING_FACE_", "TRANSFORMERS_", "AWS_", "MODELKIN_", "FSSPEC_")
_FOREIGN_NAMES = {
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME"),
}

# huggingface_hub reads the environment when it is imported, which a test module may do before any fixture.
for _name in list(os.environ):
    if _name.upper().startswith(_FOREIGN) or _name.upper() in _FOREIGN_NAMES:
        del os.environ[_name]
_home = tempfile.TemporaryDirectory(prefix="modelkin-tests-")
NOWHERE = "http://127.0.0.1:9"
"""An endpoint at which nobody listens: a test that forgets its own server does not leave the machine."""
os.environ |= {
    "HF_ENDPOINT": NOWHERE,
    "HF_HOME": _home.name,
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    # Never prompt for missing credentials.
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: threads of numpy would only wait for each other, at twice the cost.
    os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import pytest  # noqa: E402  the environment comes first
from huggingface_hub import constants  # noqa: E402
from hypothesis import settings  # noqa: E402

# Nothing is timed: a busy machine is slow.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def private_home(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test its own Hub cache, range store and token file, and no Hub."""
    # Not by pytest, which scans all folders of the run for each new one.
    home = Path(_home.name, f"test-{next(_numbers)}")
    home.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_ASSETS_CACHE", str(home / "assets"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(home / "stored_tokens"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if os.environ.get(name, "").startswith("ko"):  # commands would answer in Korean
            monkeypatch.delenv(name)
    return home


@pytest.fixture(autouse=True, scope="session")
def _home_is_removed() -> Iterator[None]:
    yield
    _home.cleanup()


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command here: from arguments to exit code, stdout and stderr."""
    from modelkin.cli import failures
    from modelkin.cli.app import app

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["modelkin", *arguments])
        status = failures.run(app)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


_LONG = (
    # Of `make scale`.
    *("scale/test_relatives_wide.py", "scale/test_relatives_large.py", "scale/test_real.py"),
    *("scale/test_strangers_narrow.py", "scale/test_relatives.py", "scale/test_strangers_wide.py"),
    *("scale/test_coordinates.py", "scale/test_masks.py", "scale/test_students.py", "scale/test_matching.py"),
    *(
        "casework/studies/test_shipped.py",
        "comparison/test_calibration.py",
        "comparison/test_zoo_verdicts.py",
    ),
    *("comparison/test_relations.py", "benchmarks/test_alignment.py", "benchmarks/test_peers.py"),
    *("comparison/test_disguised_strangers.py", "comparison/test_renamed.py", "source/test_protocol.py"),
    *(
        "formats/test_quantised_compare.py",
        "casework/catalogue/test_examples.py",
        "formats/test_gguf_types.py",
    ),
    *(
        "comparison/test_controls.py",
        "comparison/methods/test_deep_nulls.py",
        "comparison/test_arithmetic.py",
    ),
    *("comparison/test_false_accusations.py", "source/test_http.py", "comparison/test_lookalikes.py"),
    *("architecture/test_detect.py", "lineage/test_merge.py", "benchmarks/test_reading.py"),
    *("stats/test_calibration.py", "comparison/test_consistency.py"),
    *("real/test_formats_gguf.py", "real/test_formats.py", "real/test_alignment.py"),
    "real/test_tokenizers.py",
)
"""Files that take longest, the longest first."""


_MORE = (
    "benchmarks/test_alignment.py",
    "benchmarks/test_reading.py",
    "casework/catalogue/test_examples.py",
    "casework/replay/test_seeds.py",
    "casework/studies/test_forms.py",
    "casework/test_verify.py",
    "comparison/methods/test_deep_nulls.py",
    "comparison/test_calibration.py",
    "comparison/test_consistency.py",
    "comparison/test_controls.py",
    "comparison/test_cost.py",
    "comparison/test_deep_false_accusations.py",
    "comparison/test_disguised_strangers.py",
    "comparison/test_renamed.py",
    "document/test_html_browser.py",
    "document/test_reading_browser.py",
    "fingerprint/test_zoo.py",
    "formats/test_gguf_models.py",
    "formats/test_quantised_compare.py",
    "scale/test_relatives.py",
    "source/test_protocol.py",
    "stats/test_calibration.py",
    "test_pipeline_files.py",
)
"""Files that check a lot at once: `make test` would take longer than people wait (`make test-more`)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files: at the end a worker would be alone with one (`--no-loadscope-reorder`)."""
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(_LONG)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    more = {here / name for name in _MORE}
    for item in items:
        if item.path in more:
            item.add_marker(pytest.mark.more)
