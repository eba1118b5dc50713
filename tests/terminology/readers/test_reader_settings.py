import inspect
import pickle

import numpy as np
import polars as pl
import pytest

from spacy_sapbert.settings import format_table, list_settings
from spacy_sapbert.terminology import read_jsonl, read_obo, read_rrf, read_table
from spacy_sapbert.terminology.readers.jsonl import JsonlSettings, make_jsonl_reader
from spacy_sapbert.terminology.readers.obo import OboSettings, make_obo_reader
from spacy_sapbert.terminology.readers.rrf import make_rrf_reader
from spacy_sapbert.terminology.readers.rrf_tables import RrfSettings
from spacy_sapbert.terminology.readers.table import TableSettings, make_table_reader

READERS = [
    (read_jsonl, make_jsonl_reader, JsonlSettings),
    (read_obo, make_obo_reader, OboSettings),
    (read_table, make_table_reader, TableSettings),
    (read_rrf, make_rrf_reader, RrfSettings),
]


@pytest.mark.parametrize("read, make, settings", READERS)
def test_signatures_have_the_settings_with_their_defaults(read, make, settings):
    for function in (read, make):
        path, *keywords = inspect.signature(function).parameters.values()
        assert path.name == "path" and path.default is path.empty
        assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in keywords)
        assert {p.name: p.default for p in keywords} == settings().to_dict()


@pytest.mark.parametrize("read, make, settings", READERS)
def test_every_setting_has_a_meaning_in_the_table(read, make, settings):
    assert all(row.meaning and row.default for row in list_settings(settings))
    assert format_table(settings).count("\n") == len(settings.model_fields) + 2


@pytest.mark.parametrize("read, make, settings", READERS)
def test_wrong_settings_are_refused_before_the_file_is_looked_for(read, make, settings, tmp_path):
    with pytest.raises(ValueError, match=rf"^\[E404\].*errors of `{read.__name__}` is 'ignore'"):
        read(tmp_path / "none", errors="ignore")
    with pytest.raises(ValueError, match=rf"^\[E406\].*eror of `{make.__name__}`. Did you mean errors"):
        make(str(tmp_path / "none"), eror="skip")
    with pytest.raises(FileNotFoundError):
        make(str(tmp_path / "none"))()


@pytest.mark.parametrize("read, make, settings", READERS)
def test_readers_of_configs_can_be_sent_to_other_processes(read, make, settings):
    reader = make("a path", errors="skip")
    assert pickle.loads(pickle.dumps(reader)).keywords == {"errors": "skip"}


@pytest.mark.parametrize(
    "languages", [["GER", "ENG"], {"GER", "ENG"}, np.array(["GER", "ENG"]), pl.Series(["GER", "ENG"]), ("GER", "ENG")]
)
def test_any_collection_is_a_list_and_reports_sort_it(languages):
    settings = RrfSettings(languages=languages, max_restriction_level=np.int64(3), lower_case=np.bool_(True))
    assert sorted(settings.languages) == ["ENG", "GER"]
    assert settings.to_dict() == {
        "languages": ["ENG", "GER"],
        "sources": None,
        "term_types": None,
        "semantic_types": None,
        "suppressed": "keep",
        "max_restriction_level": 3,
        "lower_case": True,
        "tradenames": "union",
        "tradename_direction": "both",
        "definition_sources": ["NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA"],
        "remap_retired": False,
        "xrefs": False,
        "errors": "raise",
    }
