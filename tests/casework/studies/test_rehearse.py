"""A dry run of a study reads no tensor, and covers all that the run reads."""

import json

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from modelkin.casework.studies import load_study, plan_study, run_study
from modelkin.cli.app import app
from modelkin.demo import demo_zoo
from modelkin.model import Model
from modelkin.options import FetchOptions
from modelkin.source import ByteRange, merged
from modelkin.source.ranges import subtracted


@pytest.fixture
def fetch(hub, tmp_path):
    # Weights of these models would lie in the first piece of a file, which is read for its header.
    return FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path / "store", head_bytes=1024)


@pytest.mark.more
def test_a_plan_covers_every_tensor_that_the_run_reads(fetch, tmp_path, monkeypatch):
    kinds = {item.kind: item for item in load_study("original-claim").experiments}  # one of each
    study = replace(load_study("original-claim"), figures=(), experiments=tuple(kinds.values()))
    plan = plan_study(study, fetch=fetch)
    read: dict[str, list[tuple[str, ByteRange]]] = {}
    plain = Model.read

    def noted(model, slices, **options):
        own = read.setdefault(model.location.ref, [])
        own += [(file, item) for file, some in model._reader.ranges(slices).items() for item in some]
        return plain(model, slices, **options)

    monkeypatch.setattr(Model, "read", noted)
    result = run_study(study, tmp_path / "out", fetch=fetch, formats=("svg",))
    assert result.done
    for alias, planned in plan.models.items():
        needed = read.get(study.models[alias].ref, [])
        for file in {file for file, _ in needed}:
            ranges = merged(item for own, item in needed if own == file)
            assert not subtracted(ranges, (item for own, item in planned.requests if own == file)), alias
        if needed:
            n_read = sum(item.length for item in merged_of(needed))
            # A plan must not be safe just by being large; what only relatives need is counted separately.
            assert planned.bytes_needed - plan.differences[alias] <= 2 * n_read


def merged_of(needed):
    files = sorted({file for file, _ in needed})
    return [item for file in files for item in merged(one for own, one in needed if own == file)]


def test_a_dry_run_writes_nothing_and_reads_no_tensor(tmp_path, monkeypatch):
    monkeypatch.setattr(Model, "read", lambda *_, **__: pytest.fail("a tensor was read"))
    place = tmp_path / "out"
    with demo_zoo() as zoo:
        stand_ins = {"solar": "base", "glm": "twin-1", "phi": "nowhere"}
        models = [word for alias, name in stand_ins.items() for word in ("--model", f"{alias}={zoo / name}")]
        arguments = ["study", "run", "sanity-check", "--dry-run", "--out", str(place), *models]
        done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
        shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == shown.exit_code == 0
    found = json.loads(done.stdout)
    assert found["schema"] == "modelkin.study-plan/1"
    assert set(found["models"]) == {"solar", "glm"}
    assert all(plan["bytes_needed"] > 0 for plan in found["models"].values())
    assert [item["alias"] for item in found["missing"]] == ["phi"]
    assert "no tensor was read" in shown.stdout
    assert not place.exists()


def test_a_run_without_a_folder_is_wrong_usage():
    done = CliRunner().invoke(app, ["study", "run", "sanity-check"])
    assert done.exit_code == 2
    assert "--out" in done.output
