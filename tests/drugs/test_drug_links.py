"""Drug strings are linked to the most specific concept of a release with RxNorm's form that says all of them, and to
none that says something else."""

from itertools import product

import polars as pl
import pytest
import spacy
from case_tables import cases
from drug_release import write_drug_release
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from spacy_sapbert.__main__ import app
from spacy_sapbert.drugs import read_drug
from spacy_sapbert.drugs.concepts import RELATIONS, DrugConcepts
from spacy_sapbert.drugs.link import COLUMNS, link_drugs
from spacy_sapbert.terminology import read_rrf


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return write_drug_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def terminology(release):
    return read_rrf(release, relations=RELATIONS, tradenames="off")


@pytest.fixture(scope="module")
def concepts(terminology):
    return DrugConcepts(terminology)


@cases("drug_links")
def test_a_string_is_linked(concepts, string, name, how, note):
    answer = concepts.answer(string)
    linked = "" if answer.row is None else concepts.terminology.concepts["canonical_name"][answer.row]
    assert (linked, answer.how) == (name, how)
    assert note in "; ".join(answer.notes)


def test_each_clinical_drug_is_linked_to_itself(concepts):
    """In small letters, with another space, and with the words of lists."""
    names = concepts.terminology.names.to_polars().filter(pl.col("term_type").is_in(["SCD", "SBD"]))
    for name, row in names.select("name", "concept").iter_rows():
        for string in (name, name.lower(), f"{name} once daily"):
            answer = concepts.answer(string)
            assert answer.row == row, (string, answer)


FORMS = ("", "tablet", "capsule", "chewable tablet", "oral suspension", "cream", "injection", "inhaler")
RELEASES = ("", "ER", "DR", "XL", "SR", "ODT")
INGREDIENTS = ("metoprolol", "metoprolol tartrate", "metoprolol succinate", "bupropion", "aspirin", "hydroxyzine")
INGREDIENTS += ("hydroxyzine pamoate", "omeprazole", "ondansetron", "lisinopril", "quetiapine", "Wellbutrin", "Toprol")
INGREDIENTS += ("lisinopril-hydrochlorothiazide", "losartan", "Hyzaar", "OxyContin", "oxycodone", "fluticasone")
STRENGTHS = ("", "5 mg", "10 mg", "20 mg", "25 mg", "50 mg", "81 mg", "100 mcg", "150 mg", "4 mg", "20-12.5 mg")


@settings(max_examples=500, deadline=None)
@given(st.sampled_from([*product(INGREDIENTS, RELEASES, STRENGTHS, FORMS)]))
def test_no_answer_says_something_else(concepts, parts):
    """What the name of the answer says, read without any terminology, is what the string says or nothing."""
    string = " ".join(filter(None, parts))
    answer = concepts.answer(string)
    if answer.row is None:
        return
    name = concepts.terminology.concepts["canonical_name"][answer.row]
    said, given_ = read_drug(string), read_drug(name)
    plain = name.casefold()
    for ingredient in answer.ingredients:
        assert ingredient.split()[0].casefold() in plain or answer.how in ("name", "brand only")
    if parts[0].islower():
        assert "[" not in name
        assert plain.count(" / ") == parts[0].count("-")
        assert all(word in plain for word in parts[0].replace("-", " ").split())
    if given_.strengths and said.strengths:
        assert all(any(one.equals(other) for other in given_.strengths) for one in said.strengths)
    is_only = answer.notes == (f"only as {given_.release}",)
    if given_.form and not is_only:
        assert given_.form == said.form or not said.form or said.form == "injection"
        assert given_.release == said.release
        assert given_.hours == said.hours or not said.hours or not given_.hours
    elif not given_.form:
        assert not given_.release


def test_names_that_brands_give_are_told_apart(release, concepts):
    """Read with the tradenames as synonyms, as SapBERT's data has them, the release gives the same answers."""
    union = DrugConcepts(read_rrf(release, relations=RELATIONS))
    without = DrugConcepts(read_rrf(release))
    for string in ("Lipitor 40 mg", "atorvastatin 40 mg", "Lipitor", "Vicodin 5/325", "metoprolol succinate 50 mg"):
        assert union.answer(string).row == concepts.answer(string).row
        # Without relations, brands are known by the names that they give, and salts by their words.
        assert without.answer(string).row == concepts.answer(string).row


def test_rows_have_what_strings_say(terminology):
    strings = ["Toprol XL 50mg 1 tab po qd", "bananas", " ", "MS 2 mg IV prn"]
    rows = link_drugs(terminology, strings)
    assert [row["label"] for row in rows] == strings
    assert all([*row] == ["label", *COLUMNS] for row in rows)
    assert rows[0]["linked_id"] in terminology and rows[0]["linked_how"] == "drug"
    assert [rows[0][f"drug_{name}"] for name in ("ingredients", "brand", "strength", "form", "release", "route")] == [
        "metoprolol",
        "Toprol",
        "50 mg",
        "tablet",
        "extended release",
        "oral",
    ]
    assert (rows[0]["drug_frequency"], rows[0]["drug_quantity"]) == ("once daily", "1 tablet")
    assert [row["linked_how"] for row in rows[1:]] == ["no name", "empty", "several"]
    assert "morphine sulfate" in rows[3]["linked_others"] and rows[3]["drug_frequency"] == "as needed"


@pytest.mark.parametrize("wrong", ["aspirin", ["aspirin", None], 5])
def test_what_is_no_list_of_strings_is_refused(terminology, wrong):
    with pytest.raises(TypeError, match="link_drugs"):
        link_drugs(terminology, wrong)


def test_the_command_links_a_column_of_drugs(terminology, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "drugs.csv").write_text("drug,n\nLipitor 40 mg qd,1\n=aspirin 81 mg EC,2\n", encoding="utf8")
    options = ["--pipeline", str(tmp_path / "pipeline"), "--column", "drug"]
    CliRunner().invoke(app, ["link-drugs", str(tmp_path / "drugs.csv"), *options], catch_exceptions=False)
    frame = pl.read_csv(tmp_path / "drugs_linked.csv")
    assert frame.columns == ["drug", "n", *COLUMNS]
    assert frame["linked_name"][0] == "atorvastatin calcium 40 MG Oral Tablet [Lipitor]"
    assert frame["drug_frequency"].to_list() == ["once daily", None]


PIECES = [*INGREDIENTS, *RELEASES, *STRENGTHS, *FORMS, *"/ - ( ) [ # 3 10 x and with MS".split()]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join) | st.text(max_size=20))
def test_any_string_gets_an_answer(concepts, string):
    answer = concepts.answer(string)
    hows = ("drug", "name", "strength only", "ingredient only", "brand only")
    assert (answer.row is not None) == (answer.how in hows)
    rows = range(len(concepts.terminology))
    assert all(row in rows for row in answer.others)
