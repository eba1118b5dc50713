"""The page of a review in a browser: the keyboard, filters, hostile labels, thousands of rows, what it gives back."""

import pytest
from page_server import launch_browser, needs_chromium, playwright
from test_review import HOSTILE, ROWS, make_set

from spacy_sapbert.tables.mapping import APPROVED, NO_TERM, REJECTED
from spacy_sapbert.tables.review import apply_decisions, read_decisions, write_review

expect = playwright.expect
pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as browser:
        yield browser


@pytest.fixture
def open_page(browser, tmp_path):
    """Return a function that writes the page of a mapping and opens it."""
    context = browser.new_context(accept_downloads=True)
    errors, requests = [], []

    def open_page(mapping):
        write_review(mapping, path := tmp_path / "review.html", "a.sssom.tsv")
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text))
        page.on("dialog", lambda dialog: dialog.accept(page.answer))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    context.close()
    assert not errors and not [url for url in requests if not url.startswith(("file:", "blob:"))]


def press(page, keys):
    for key in keys.split():
        page.keyboard.press(key)


def reopen(page, progress):
    """Open the page again. On a busy machine, Chromium stores what the page keeps a moment later."""
    for _ in range(10):
        page.reload()
        if page.locator("#progress").inner_text().strip() == progress:
            return
        page.wait_for_timeout(500)
    expect(page.locator("#progress")).to_have_text(progress)


def download(page, kind, path):
    with page.expect_download() as waiting:
        page.click(f"#{kind}")
    waiting.value.save_as(path)
    return path


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_review_by_the_keyboard_is_kept_downloaded_and_read_back(open_page, tmp_path, kind):
    mapping = make_set()
    page = open_page(mapping)
    expect(page.locator("#rows tr")).to_have_count(len(ROWS))
    expect(page.locator("#rows tr").nth(1)).to_contain_text(HOSTILE.split()[0])
    press(page, "a r 1")
    page.answer = "HP:12"
    press(page, "i")
    expect(page.locator("#message")).to_contain_text("ids of HP have 7 digits")
    page.answer = "no id"
    press(page, "i")
    expect(page.locator("#message")).to_contain_text("is no id")
    press(page, "n")
    page.answer = "=sure"
    press(page, "ArrowUp ArrowUp ArrowUp c")
    expect(page.locator("#progress")).to_have_text("4 of 4 decided")
    page.click(f"#{kind}")
    expect(page.locator("#message")).to_contain_text("Say who")
    page.fill("#reviewer", "Ann")
    # What was decided is there after the page was closed.
    reopen(page, "4 of 4 decided")
    decisions = read_decisions(download(page, kind, tmp_path / f"decisions.{kind}"), mapping)
    frame = apply_decisions(mapping, decisions).frame
    assert frame["mapping_status"].to_list() == [APPROVED, REJECTED, APPROVED, APPROVED]
    assert frame["object_id"].to_list() == ["HP:0000001", "HP:0000002", "HP:0000003", NO_TERM]
    assert set(frame["reviewer_label"]) == {"Ann"} and "=sure" in frame["comment"].to_list()


def test_decisions_can_be_undone_and_predicates_chosen(open_page, tmp_path):
    mapping = make_set()
    page = open_page(mapping)
    page.locator("#rows select").first.select_option("skos:broadMatch")
    press(page, "Escape")
    page.locator("body").click(position={"x": 1, "y": 1})
    press(page, "a r u ArrowUp u")
    press(page, "ArrowDown r")
    expect(page.locator("#message")).to_contain_text("no concept to reject")
    page.fill("#reviewer", "Ann")
    decisions = read_decisions(download(page, "json", tmp_path / "decisions.json"), mapping)
    assert [(one.row, one.decision) for one in decisions] == [(1, "accept")]
    assert decisions[0].predicate_id == "skos:broadMatch"


def test_another_concept_has_the_predicate_that_the_page_shows(open_page, tmp_path):
    page = open_page(mapping := make_set())
    select = page.locator("#rows select").nth(1)
    expect(select).to_have_value("skos:closeMatch")
    press(page, "ArrowDown 1")
    expect(select).to_have_value("skos:exactMatch")
    expect(page.locator("#rows tr[aria-current=true]")).to_have_count(1)
    page.fill("#reviewer", "Ann")
    decisions = read_decisions(download(page, "json", tmp_path / "decisions.json"), mapping)
    row = apply_decisions(mapping, decisions).frame.row(1, named=True)
    assert (row["predicate_id"], row["object_id"]) == ("skos:exactMatch", "HP:0000003")


def test_rows_are_filtered(open_page):
    page = open_page(make_set())
    rows = page.locator("#rows tr")
    page.fill("#text", "seizure")
    expect(rows).to_have_count(1)
    page.fill("#text", "")
    page.select_option("#how", "no name")
    expect(rows).to_have_count(2)
    page.select_option("#how", "")
    page.fill("#most", "0.7")
    expect(rows).to_have_count(1)
    page.fill("#most", "")
    page.select_option("#order", "confidence")
    expect(rows.first.locator("td").first).to_have_text("3")
    page.select_option("#shown", "decided")
    expect(page.locator("#place")).to_have_text("no row")


def test_thousands_of_rows_are_shown_by_pages(open_page):
    rows = [
        (f"my:{i}", f"label {i}", "skos:exactMatch", "HP:0000001", "Seizure", "0.5", "name", None) for i in range(5000)
    ]
    page = open_page(make_set(rows))
    expect(page.locator("#rows tr")).to_have_count(50)
    press(page, "ArrowRight ArrowRight a")
    expect(page.locator("#place")).to_have_text("rows 101 to 150 of 5000")
    expect(page.locator("#progress")).to_have_text("1 of 5000 decided")
    page.fill("#text", "label 4999")
    expect(page.locator("#rows tr")).to_have_count(1)
    assert page.locator("#rows tr.current").count() == 1
