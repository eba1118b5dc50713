"""The model card."""

from training.data.run_folder import RunReport
from training.encoders.card import CardNotes, Making, write_card


def make_report():
    encoder = {"base": "0" * 64, "trained": "1" * 64, "pooling": "cls", "max_length": 25}
    return RunReport(
        settings={"paths": {"encoder": ""}},
        data={},
        encoder=encoder,
        export={"base_share": 0.0, "dtype": "fp32"},
        versions={"torch": "2"},
    )


def test_names_do_not_break_the_table():
    results = {"NCBI | disease": {"acc@1|strict": 0.5}, "<b>": {"acc@1|strict": 1.0}}
    card = write_card(make_report(), Making("toy", "nobody.", []), CardNotes(results=results))
    table = [line for line in card.splitlines() if line.startswith("|")]
    assert table == ["| | acc@1\\|strict |", "| --- | ---: |", "| NCBI \\| disease | 50.0 |", "| \\<b\\> | 100.0 |"]
