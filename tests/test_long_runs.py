"""Runs of characters that spaCy's tokenizer would take minutes for."""

import pytest

from spacy_sapbert.text import MAX_RUN, measure_run


@pytest.mark.parametrize("unit", ["(", "$", "😀", "'s", "（", "a:", "http:中", "\u200b"])
def test_what_takes_long_is_measured(unit):
    assert measure_run(f"a {unit * 100_000} b") > MAX_RUN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "患者发热，咳嗽三天，体温38.5℃，血压120/80mmHg。",
        "患者は三日前からの発熱とカレーのような咳を訴える。",
        "ผู้ป่วยมีไข้และไอมาสามวัน",
        "She has a racing heart (120/min), headaches and a low platelet count.\n",
        "-" * 132 + "\n" + "_" * 200 + "\u3000" + "=" * 200 + "\n",
    ],
)
def test_ordinary_texts_pass_at_any_length(text):
    assert measure_run((text * 20_000)[:20_000]) <= MAX_RUN


def test_the_longest_run_counts():
    assert measure_run("ab (((( abc\t((\n") == 4
