"""The panel of the page that learns from corrections, in a browser."""

import pytest
import spacy
from page_server import LateAnswer, launch_browser, needs_chromium, open_context, playwright, run_service, settle
from project_scripts import import_scripts

with import_scripts("service"):
    import learning
    import lessons
    import limits
    import serve as service
    from gold import Correction, GoldRequest, keep_gold

expect = playwright.expect
pytestmark = needs_chromium
NEW = "A wobbly ticker again, then insomnia."


def make_lesson(number):
    text = f"Case {number}: a wobbly ticker, then insomnia."
    places = [
        (text.index(name), len(name), id_) for name, id_ in (("wobbly ticker", "C0027051"), ("insomnia", "C0917801"))
    ]
    spans = [Correction(start=at, end=at + n, label="DISORDER", kb_id=id_) for at, n, id_ in places]
    return lessons.CorrectedText(text, spans, True)


@pytest.fixture
def page(make_nlp, tmp_path, monkeypatch):
    """The page of a service with documents that are done."""
    nlp = make_nlp()
    nlp.remove_pipe("entity_ruler")
    nlp.add_pipe("terminology_matcher", before="sapbert_linker", config={"label": "DISORDER"})
    nlp.to_disk(tmp_path / "saved")
    done = [make_lesson(number) for number in range(30)]
    for lesson in done:
        keep_gold(tmp_path / "corrections.jsonl", GoldRequest(text=lesson.text, spans=lesson.spans))
    monkeypatch.setattr(service.Documents, "list_done", lambda self: {lesson.text for lesson in done})
    source = learning.SavedSource(str(tmp_path / "saved"))
    app = service.make_app(spacy.load(tmp_path / "saved"), limits.ServiceSettings(folder=str(tmp_path)), source)
    with run_service(app) as host, launch_browser() as browser:
        size = {"width": 390, "height": 844}
        with open_context(browser, host, viewport=size, color_scheme="dark") as page:
            yield page


def test_a_reviewer_learns_uses_the_result_and_goes_back(page):
    page.fill("#text", NEW)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#linked .mention")).to_have_count(1)
    page.click("#learning summary")
    expect(page.locator("#lessons")).to_contain_text("60 corrections in 30 documents, 30 of them done")
    page.focus("#learn")
    page.keyboard.press("Enter")
    expect(page.locator("#learning-share")).to_be_visible()
    expect(page.locator("#learn")).to_be_disabled()
    page.locator("#learned tbody tr").first.wait_for(timeout=900_000)
    expect(page.locator("#learned caption")).to_contain_text("It is better than before. Learned: further names")
    expect(page.locator("#learned tbody tr").first).to_contain_text("100.0")
    # The table fits a phone.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("#keep-old")
    expect(page.locator("#learning-state")).to_have_text("The old pipeline stays in use.")
    page.click("#use-learned")
    expect(page.locator("#linked .mention")).to_have_count(2)
    expect(page.locator("#use-learned")).to_be_hidden()
    page.click("#back")
    expect(page.locator("#linked .mention")).to_have_count(1)
    expect(page.locator("#back")).to_be_hidden()


def test_a_job_is_stopped_on_the_page(page):
    page.click("#learning summary")
    page.click("#learn")
    page.click("#stop-learning")
    expect(page.locator("#learning-state")).to_have_text("Learning was stopped. Nothing has changed.")
    expect(page.locator("#learn")).to_be_enabled()


def test_a_late_look_does_not_hide_that_the_job_has_started(page):
    late = LateAnswer(page, "**/learning")
    page.click("#learning summary")
    late.wait()
    page.evaluate("post('learn'), null")
    settle(page)
    # Another look would put it right later.
    page.evaluate("clearTimeout(learning.timer)")
    late.come()
    expect(page.locator("#stop-learning")).to_be_visible()
    page.click("#stop-learning")
