"""Studies that come with the package, and how any study is found."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from modelkin.errors import NotFound, StudyError

from ._node import MAX_BYTES
from ._spec import Study, read_study
from .kinds import KINDS
from .plots import PLOTS

_ENDING = ".yaml"


def shipped_studies() -> tuple[str, ...]:
    """Return the names of the studies that come with the package."""
    place = resources.files("modelkin.casework.studies").joinpath("data")
    return tuple(
        sorted(item.name.removesuffix(_ENDING) for item in place.iterdir() if item.name.endswith(_ENDING))
    )


def study_text(name_or_file: str) -> str:
    """Return the YAML of a study."""
    return _data(name_or_file).decode("utf-8", "replace")


def load_study(name_or_file: str) -> Study:
    """Read a study, by its name or from a file.

    Raises
    ------
    NotFound
        There is neither.
    StudyError
        The file breaks the rules of studies.
    """
    return parse_study(_data(name_or_file), name_or_file)


def parse_study(data: bytes, file: str = "study") -> Study:
    """Read a study from YAML."""
    return read_study(
        data,
        file,
        kinds={name: kind.fields for name, kind in KINDS.items()},
        figures={name: plot.fields for name, plot in PLOTS.items()},
    )


def _data(name_or_file: str) -> bytes:
    if name_or_file in shipped_studies():
        place = resources.files("modelkin.casework.studies").joinpath("data", f"{name_or_file}{_ENDING}")
        return place.read_bytes()
    path = Path(name_or_file)
    try:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise StudyError(name_or_file[:200], f"cannot be read: {error.strerror or error}") from error
    raise NotFound(
        name_or_file[:200],
        "there is no study and no file of this name",
        hint=f"Studies are {', '.join(shipped_studies())}.",
    )
