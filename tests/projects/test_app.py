"""The project that serves a pipeline: real requests over sockets, and the page in a real browser where there is one."""

import os

import pytest
import srsly
from project_scripts import import_scripts


@pytest.fixture(scope="module", autouse=True)
def scripts():
    with import_scripts("app"):
        yield


@pytest.fixture
def pipeline(make_nlp, tmp_path):
    make_nlp().to_disk(tmp_path / "pipeline")
    return str(tmp_path / "pipeline")


def test_answers_are_checked_against_their_texts():
    from load import is_answer_to

    entity = {"start": 2, "end": 6, "text": "cold"}
    assert is_answer_to({"results": [{"entities": [entity]}]}, "a cold")
    assert not is_answer_to({"results": [{"entities": [entity]}]}, "cold a")
    assert not is_answer_to({"results": [{"entities": []}]}, "a cold")


def test_no_request_is_lost(pipeline, tmp_path, monkeypatch):
    import load

    monkeypatch.setattr(load, "SENTENCES", ("A common cold.", "Insomnia.", "A heart attack at night."))
    load.main(pipeline, tmp_path / "load.json", requests=60, clients=8)
    result = srsly.read_json(tmp_path / "load.json")
    assert (result["lost"], result["wrong"]) == (0, 0) and 0 < result["p50_ms"] <= result["p99_ms"]
    assert (result["large_body"], result["broken_json"], result["after_them"]) == (413, 422, 200)


@pytest.mark.skipif("BROWSER_PATH" not in os.environ, reason="needs a Chromium (BROWSER_PATH) and Playwright")
def test_the_page_works_in_a_browser(tmp_path):
    import make_pipeline
    import screenshots

    make_pipeline.main(tmp_path / "pipeline")
    screenshots.main(str(tmp_path / "pipeline"), tmp_path, os.environ["BROWSER_PATH"])
    assert all((tmp_path / f"{name}.png").stat().st_size > 20_000 for name in screenshots.SIZES)
