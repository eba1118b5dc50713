"""The same words elsewhere on the service's page: in a text, in all documents, and always."""

import json
import re
from types import SimpleNamespace

import pytest
from page_server import LateAnswer, launch_browser, needs_chromium, open_context, playwright, run_service, settle
from project_scripts import import_scripts

with import_scripts("service"):
    import limits
    import serve as service

expect = playwright.expect
pytestmark = needs_chromium

TEXT = "😀 A heart attack. Then a heart\nattack, a cold, a common cold, a cold, and a heart attack."
DOCUMENTS = {"one": "No heart attack.", "two": "Heart attack? A heart attack!", "three": "Well.", "own": TEXT}


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as browser:
        yield browser


@pytest.fixture
def page(browser, make_nlp, tmp_path, monkeypatch):
    """Return the page of a service with documents, with `TEXT` linked."""
    rows = [SimpleNamespace(id=id_, name=id_, text=text) for id_, text in DOCUMENTS.items()]
    listing = SimpleNamespace(list_documents=lambda who: rows, read=lambda: None)
    monkeypatch.setattr(service, "Documents", lambda workspace: listing)
    app = service.make_app(make_nlp(), limits.ServiceSettings(folder=str(tmp_path)))
    with run_service(app) as host, open_context(browser, host, "name=Ann") as page:
        expect(page.locator("#message")).to_contain_text("mention")
        page.fill("#text", TEXT)
        page.keyboard.press("Control+Enter")
        page.wait_for_function("text => state.text === text", arg=TEXT)
        yield page


def read_gold(page, tmp_path):
    """Read the words of each text that are corrected, with their ids."""
    page.evaluate("state.saving")
    path = tmp_path / "corrections.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    return {
        row["text"]: [(row["text"][span["start"] : span["end"]], span.get("kb_id", "")) for span in row["spans"]]
        for row in rows
    }


def reject(page, words, place=0):
    """Take the first of some words for no mention."""
    page.locator("#linked .mention", has_text=words).nth(place).click()
    page.click("#nil")


def test_the_other_places_of_a_text_are_one_step(page, tmp_path):
    reject(page, "heart attack")
    expect(page.locator("#same-text")).to_have_text("2 more in this text")
    expect(page.locator("#same-documents")).to_have_text("5 in all documents")
    expect(page.locator("#same-words")).to_have_text("“heart attack” also:")
    page.keyboard.press("t")
    expect(page.locator("#message")).to_have_text("Saved: 2 more in this text.")
    expect(page.locator("#same")).to_be_hidden()
    # The mention that somebody has decided is still open.
    expect(page.locator("#linked .mention[aria-pressed=true]")).to_have_attribute("data-start", "5")
    gold = {TEXT: [("heart attack", "NIL"), ("heart\nattack", "NIL"), ("heart attack", "NIL")]}
    assert read_gold(page, tmp_path) == gold
    page.click("#undo")
    expect(page.locator("#message")).to_have_text("Undone.")
    assert read_gold(page, tmp_path) == {TEXT: gold[TEXT][:1]}
    page.click("#undo")
    expect(page.locator("#undo")).to_be_disabled()


def test_longer_mentions_and_decisions_are_left_alone(page, tmp_path):
    reject(page, "cold", place=2)
    # One "cold" is in "common cold".
    expect(page.locator("#same-text")).to_have_text("1 more in this text")
    reject(page, "cold", place=0)
    expect(page.locator("#same-text")).to_be_hidden()


def test_each_place_keeps_its_context(page, tmp_path):
    page.locator("#linked .mention", has_text="heart attack").first.click()
    page.check("#negated")
    expect(page.locator("#message")).to_have_text("Saved.")
    # A context is offered for no other place.
    expect(page.locator("#same")).to_be_hidden()
    page.click("#nil")
    expect(page.locator("#same-documents")).to_be_visible()
    page.click("#same-documents")
    expect(page.locator("#message")).to_have_text("Saved: 5 more, in 3 documents.")
    read_gold(page, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "corrections.jsonl").read_text(encoding="utf8").splitlines()]
    contexts = [span.get("context") for row in rows for span in row["spans"]]
    assert sorted(contexts, key=str) == [None] * 5 + [["negated"]]


def test_all_documents_are_corrected_and_undone_in_one_step(page, tmp_path):
    reject(page, "heart attack")
    expect(page.locator("#same-documents")).to_have_text("5 in all documents")
    page.keyboard.press("o")
    expect(page.locator("#message")).to_have_text("Saved: 5 more, in 3 documents.")
    gold = read_gold(page, tmp_path)
    assert {text: len(words) for text, words in gold.items()} == {TEXT: 3, DOCUMENTS["one"]: 1, DOCUMENTS["two"]: 2}
    page.keyboard.press("Control+z")
    expect(page.locator("#message")).to_have_text("Undone, in all documents: 3.")
    assert read_gold(page, tmp_path) == {TEXT: [("heart attack", "NIL")]}


def test_a_rule_is_made_listed_undone_and_removed(page, tmp_path):
    expect(page.locator("#rule-count")).to_have_text("0 rules")
    page.locator("#linked .mention", has_text="heart attack").first.click()
    page.click("#reject")
    expect(page.locator("#same-always")).to_be_visible()
    # Nothing happens while somebody writes.
    page.focus("#query")
    page.keyboard.press("f")
    expect(page.locator("#rule-count")).to_have_text("0 rules")
    page.fill("#query", "")
    page.click("#same-always")
    expect(page.locator("#message")).to_have_text("From now on, “heart attack” is not a mention.")
    expect(page.locator("#rule-count")).to_have_text("1 rule")
    mentions = page.locator("#linked .mention", has_text="heart")
    expect(mentions).to_have_count(1)
    page.keyboard.press("Control+z")
    expect(page.locator("#message")).to_have_text("Undone.")
    expect(page.locator("#rule-count")).to_have_text("0 rules")
    expect(mentions).to_have_count(2)
    reject(page, "heart attack", place=1)
    expect(page.locator("#same-always")).to_be_visible()
    page.keyboard.press("f")
    expect(page.locator("#rule-count")).to_have_text("1 rule")
    page.click("#rule-count")
    expect(page.locator("#rule-list li")).to_contain_text("no concept · by Ann")
    page.get_by_role("button", name="Remove the rule").click()
    expect(page.locator("#message")).to_contain_text("is removed")
    assert (tmp_path / "rules.jsonl").read_text() == ""


def test_the_rule_of_a_confirmed_proposal_names_its_concept(page):
    page.locator("#linked .mention", has_text="heart attack").first.focus()
    page.keyboard.press("c")
    expect(page.locator("#same-always")).to_be_visible()
    page.keyboard.press("f")
    expect(page.locator("#message")).to_have_text(re.compile("^From now on, “heart attack” is .+ · C0027051.$"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_room(page, scheme, tmp_path):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    reject(page, "heart attack")
    expect(page.locator("#same-documents")).to_be_visible()
    expect(page.locator("#same-always")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for name in ("same-text", "same-documents", "same-always"):
        assert page.locator(f"#{name}").get_attribute("aria-keyshortcuts")
    page.screenshot(path=tmp_path / "phone.png")


def show(page, text):
    page.fill("#text", text)
    page.click("#link")
    page.wait_for_function("text => state.text === text", arg=text)


def correct_all_late(page):
    """Correct the first of some words, then all others, and hold the answer back."""
    reject(page, "heart attack")
    expect(page.locator("#same-documents")).to_have_text("5 in all documents")
    late = LateAnswer(page, "**/same")
    page.click("#same-documents")
    late.wait()
    return late


def test_what_is_decided_before_the_others_are_corrected_stays(page):
    late = correct_all_late(page)
    page.locator("#linked .mention", has_text="heart attack").nth(1).click()
    page.click("#reject")
    page.locator("#linked .mention", has_text="cold").first.click()
    late.come()
    expect(page.locator("#message")).to_have_text("Saved: 4 more, in 3 documents.")
    expect(page.locator("#linked .rejected")).to_have_count(1)
    # The panel stays with the mention that it shows.
    expect(page.locator("#mention")).to_have_text("cold")


def test_who_leaves_a_text_has_corrected_all_of_it(page, tmp_path):
    late = correct_all_late(page)
    show(page, "A cold.")
    late.come()
    expect(page.locator("#message")).to_have_text("Saved: 5 more, in 3 documents.")
    assert len(read_gold(page, tmp_path)[TEXT]) == 3
    assert page.evaluate("state.text") == "A cold."


def make_rules(page, *names):
    for name in names:
        page.evaluate("name => ask('rules', { name, skip: true })", name)
    page.evaluate("showRules()")
    expect(page.locator("#rule-list li")).to_have_count(len(names))
    page.click("#rule-count")


def test_rules_that_are_removed_one_after_the_other_do_not_come_back(page):
    make_rules(page, "cold", "insomnia")
    late = LateAnswer(page, "**/rules/remove")
    page.get_by_role("button", name="Remove the rule: cold").click()
    late.wait()
    page.get_by_role("button", name="Remove the rule: insomnia").click()
    settle(page)
    late.come()
    expect(page.locator("#rule-count")).to_have_text("0 rules")


def test_two_clicks_remove_a_rule_once(page):
    make_rules(page, "cold", "insomnia")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("button", name="Remove the rule: cold").evaluate("(one) => (one.click(), one.click())")
    expect(page.locator("#message")).to_contain_text("The rule for “cold” is removed.")
    assert [url.endswith("/rules/remove") for url in asked].count(True) == 1
    expect(page.locator("#rule-list li")).to_have_count(1)
