"""``modelkin bench``."""

import json

from tests.places import ZOO


def test_a_table_of_methods_is_printed_and_written(run, tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text(
        "source\tmodel_a\tmodel_b\tlabel\trelation\tnote\n"
        f"zoo\t{ZOO / 'base'}\t{ZOO / 'finetune-light'}\trelated\tfine-tune\t\n"
        f"zoo\t{ZOO / 'base'}\t{ZOO / 'twin-1'}\tindependent\t\t\n"
    )
    out = tmp_path / "out"
    status, printed, err = run("bench", str(table), "--methods", "anchors,phi-u", "--out", str(out))
    assert status == 0
    assert "phi-u" in printed
    assert "start with" in err
    assert (out / "bench.html").exists()
    status, printed, _ = run("bench", str(table), "--methods", "phi-u", "--out", str(out), "--json")
    document = json.loads(printed)
    assert [item["method"] for item in document["rates"]] == ["phi-u"]
    assert document["bytes_read"] == 0


def test_a_wrong_name_is_refused_before_anything_is_read(run, tmp_path):
    status, _, err = run("bench", "public:AWM", "--methods", "avm", "--out", str(tmp_path / "out"))
    assert status == 2
    assert "Did you mean awm?" in err
    assert not (tmp_path / "out").exists()
