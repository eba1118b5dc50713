"""The page of the project `service` in a browser: what a reader sees, the keyboard, phones, and long notes."""

import csv
import json
from contextlib import ExitStack

import pytest
from page_server import FIND_FAINT, launch_browser, needs_chromium, open_context, playwright, run_service
from project_scripts import import_scripts

from spacy_sapbert.context import MentionContext, write_context
from spacy_sapbert.exchange.documents import ExchangeReport
from spacy_sapbert.exchange.formats import read_prodigy

with import_scripts("service"):
    import limits
    import serve as service

expect = playwright.expect
pytestmark = needs_chromium

TEXT = "😀 A heart attack, then insomnia.\n\nNo cold, but she sleeps badly."


@pytest.fixture(scope="module")
def nlp(make_nlp):
    nlp = make_nlp()

    def mark(doc):
        for ent in doc.ents:
            if ent.start and doc[ent.start - 1].lower_ == "no":
                write_context(ent, MentionContext(negated=True))
        return doc

    type(nlp).component("page_negation", func=mark)
    nlp.add_pipe("page_negation", last=True)
    return nlp


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as browser:
        yield browser


@pytest.fixture
def open_page(nlp, browser, tmp_path):
    """Return a function that opens the page of a service and links a text. Its method `read` reads the kept lines."""
    stack, path = ExitStack(), tmp_path / "gold.jsonl"

    def open_page(text=TEXT, *, keeps=True, name="", **options):
        settings = limits.ServiceSettings(gold=str(path) if keeps else None)
        host = stack.enter_context(run_service(service.make_app(nlp, settings)))
        page = stack.enter_context(open_context(browser, host, f"name={name}", **options))
        expect(page.locator("#message")).to_contain_text("mention")
        page.fill("#text", text)
        page.keyboard.press("Control+Enter")
        page.wait_for_function("text => state.text === text", arg=text)

        def read():
            page.evaluate("state.saving")
            return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()] if path.exists() else []

        page.read = read
        return page

    with stack:
        yield open_page


def get_mention(page, words):
    return page.locator("#linked .mention", has_text=words).first


def confirm(page, words, told="Saved."):
    """Take the first candidate of a mention, and wait for what the page says."""
    get_mention(page, words).click()
    page.click(".chosen .main")
    expect(page.locator("#message")).to_contain_text(told)


def listen(page):
    """Come back to a page, as to another tab of the browser."""
    page.evaluate("window.dispatchEvent(new Event('focus'))")


def get_focus(page):
    return page.evaluate("document.activeElement.textContent")


def test_names_and_colours_are_shown_and_nothing_is_stored(open_page):
    page = open_page()
    attack, cold = get_mention(page, "heart attack"), get_mention(page, "cold")
    expect(attack.locator("small")).to_have_text("Myocardial InfarctionC0027051", ignore_case=True)
    expect(cold.locator("small")).to_contain_text("negated")
    expect(attack).to_have_class("mention high")
    expect(cold).to_have_class("mention no-finding")
    assert "line-through" in cold.evaluate("one => getComputedStyle(one).textDecorationLine")
    expect(page.locator("#legend li:visible")).to_contain_text(["same wording", "negated"])
    attack.click()
    expect(page.locator("#candidates")).to_contain_text("similarity 100%")
    assert "osine" not in page.locator("body").inner_text()
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]


def test_mentions_are_confirmed_and_undone_with_the_keyboard_alone(open_page):
    page = open_page()
    # One stop of the tab key for the text, however many mentions it has.
    assert page.locator("#linked [tabindex='0']").count() == 1
    get_mention(page, "heart attack").focus()
    page.keyboard.press("ArrowRight")
    assert get_focus(page).startswith("insomnia")
    page.keyboard.press("Enter")
    assert get_focus(page) == "Confirm"
    page.keyboard.press("Enter")
    insomnia = get_mention(page, "insomnia")
    expect(insomnia).to_be_focused()
    expect(insomnia).to_have_class("mention corrected")
    expect(page.locator("#message")).to_have_text("Saved.")
    (row,) = page.read()
    (span,) = row["spans"]
    assert row["text"][span["start"] : span["end"]] == "insomnia" and span["kb_id"] == "C0917801"
    # Another choice replaces it, and undoing brings it back.
    page.keyboard.press("Enter")
    page.locator("#nil").focus()
    page.keyboard.press("Enter")
    expect(insomnia).to_contain_text("no concept")
    assert page.read()[0]["spans"] == [{**span, "kb_id": "NIL"}]
    page.keyboard.press("Control+z")
    expect(insomnia).to_contain_text(span["kb_id"])
    assert page.read() == [row]
    page.keyboard.press("Control+z")
    expect(page.locator("#message")).to_have_text("Undone.")
    assert page.read() == [] and page.locator("#undo").is_disabled()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(insomnia).to_be_focused()
    expect(page.locator("#choice")).to_be_hidden()


@pytest.mark.parametrize("hand", ["mouse", "keyboard"])
def test_a_missed_mention_is_selected_and_its_concept_searched(open_page, hand):
    page = open_page()
    if hand == "mouse":
        # From the middle of the white space, as people select.
        page.evaluate("""() => {
            const node = document.querySelector("#linked div:last-child > span:last-child").firstChild;
            const start = node.data.indexOf(" sleeps");
            getSelection().setBaseAndExtent(node, start, node, start + " sleeps badly".length);
        }""")
        expect(page.locator("#add")).to_have_text("Add “sleeps badly”")
        page.click("#add")
    else:
        page.focus("#text")
        page.keyboard.press("Control+End")
        page.keyboard.press("ArrowLeft")
        for _ in "sleeps badly":
            page.keyboard.press("Shift+ArrowLeft")
        page.locator("#add:enabled").focus()
        page.keyboard.press("Enter")
    expect(page.locator("#mention")).to_have_text("sleeps badly")
    assert page.read() == []
    page.fill("#query", "insomnia")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("for “insomnia”")
    assert get_focus(page) == "This one"
    page.keyboard.press("Enter")
    added = get_mention(page, "sleeps badly")
    expect(added).to_have_class("mention corrected")
    ((span,),) = (row["spans"] for row in page.read())
    assert TEXT[span["start"] : span["end"]] == "sleeps badly"
    assert (span["kb_id"], span["label"]) == ("C0917801", "DISORDER")
    # It comes back with its name, and goes when it is withdrawn.
    page.reload()
    page.fill("#text", TEXT)
    page.click("#link")
    expect(added).to_contain_text("✓ Sleeplessness", ignore_case=True)
    added.click()
    page.click("#withdraw")
    expect(added).to_have_count(0)
    assert page.read() == []


def test_a_selection_over_a_mention_replaces_it_and_escape_gives_it_back(open_page):
    page = open_page()
    page.evaluate("""() => {
        const [, attack, after] = document.querySelector("#linked div").children;
        const before = attack.previousSibling.firstChild;
        getSelection().setBaseAndExtent(before, before.data.indexOf("A"), after.firstChild, ", then".length);
    }""")
    page.click("#add")
    expect(page.locator(".draft")).to_contain_text("A heart attack, then")
    page.keyboard.press("Escape")
    expect(page.locator(".draft")).to_have_count(0)
    expect(get_mention(page, "heart attack")).to_contain_text("C0027051")


def test_what_the_service_could_not_keep_is_sent_again(open_page):
    page = open_page()
    page.route("**/gold", lambda route: route.abort())
    confirm(page, "heart attack", "Not saved yet")
    page.unroute("**/gold")
    confirm(page, "insomnia")
    assert len(page.read()[0]["spans"]) == 2


def test_what_could_not_be_kept_does_not_replace_a_decision_unseen(open_page):
    one, other = open_page(), open_page(name="$%26" + "n" * 150)
    one.evaluate("state.isLooking = true")
    one.route("**/gold", lambda route: route.abort())
    get_mention(one, "heart attack").click()
    one.click("#nil")
    expect(one.locator("#message")).to_contain_text("Not saved yet")
    confirm(other, "heart attack")
    one.unroute("**/gold")
    one.click("#link")
    expect(one.locator("#message")).to_contain_text("$&" + "n" * 98 + " has corrected the same words")
    expect(get_mention(one, "heart attack")).to_contain_text("C0027051")
    assert [span["kb_id"] for span in one.read()[0]["spans"]] == ["C0027051"]


def test_what_somebody_else_has_corrected_is_shown_before_it_is_replaced(open_page):
    one, other = open_page(), open_page()
    mine, theirs = (get_mention(page, "heart attack") for page in (one, other))
    one.evaluate("state.isLooking = true")  # it is slower than the decisions
    confirm(other, "heart attack")
    mine.click()
    one.click("#nil")
    # Had the page not heard of it, it shows it now, and a second decision counts.
    expect(one.locator("#message")).to_contain_text("Somebody else has corrected the same words")
    expect(mine).to_contain_text("✓ Myocardial InfarctionC0027051", ignore_case=True)
    (span,) = one.read()[0]["spans"]
    assert span["kb_id"] == "C0027051" and one.locator("#undo").is_disabled()
    confirm(one, "insomnia")
    mine.click()
    one.click("#nil")
    expect(one.locator("#message")).to_have_text("Saved.")
    assert [span["kb_id"] for span in one.read()[0]["spans"]] == ["NIL", "C0917801"]
    # What somebody else has withdrawn is not withdrawn from a third.
    listen(other)
    expect(theirs).to_contain_text("no concept")
    theirs.click()
    other.click("#withdraw")
    expect(other.locator("#message")).to_have_text("Withdrawn.")
    one.click(".candidate >> nth=0 >> button >> nth=0")
    expect(one.locator("#message")).to_contain_text("has corrected the same words")


def test_without_a_file_the_page_holds_corrections_for_download(open_page):
    page = open_page(keeps=False)
    confirm(page, "heart attack", "on this page only")
    page.check("#uncertain")
    get_mention(page, "insomnia").click()
    page.click("#reject")
    get_mention(page, "cold").click()
    page.click("#nil")
    with page.expect_download() as download:
        page.click("#download")
    # The service writes the same lines.
    kept = open_page()
    for words, button in (("heart attack", "#uncertain"), ("insomnia", "#reject"), ("cold", "#nil")):
        get_mention(kept, words).click()
        kept.click(button)
    expect(kept.locator("#message")).to_have_text("Saved.")
    rows = [json.loads(line) for line in download.value.path().read_text(encoding="utf8").splitlines()]
    assert rows == kept.read() and [len(row["spans"]) for row in rows] == [2, 1]
    # The page asks before it forgets them.
    with page.expect_event("dialog") as asking:
        page.close(run_before_unload=True)
    assert asking.value.type == "beforeunload"
    asking.value.dismiss()


def test_the_context_of_a_mention_is_corrected_with_the_keyboard(open_page, tmp_path):
    page = open_page()
    cold = get_mention(page, "cold")
    cold.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#context input:checked")).to_have_attribute("id", "negated")
    page.keyboard.press("Shift+Tab")
    for word in ("hypothetical", "historical", "family"):
        assert page.evaluate("document.activeElement.id") == word
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.locator("#family")).to_be_focused()
    expect(cold.locator("small")).to_contain_text("✓ Cold Temperature · negated · family", ignore_case=True)
    assert [span["context"] for span in page.read()[0]["spans"]] == [["negated", "family"]]
    page.uncheck("#negated")
    page.uncheck("#family")
    expect(cold).to_have_class("mention corrected")
    # Nothing of it, which is a decision as well, and comes back.
    (span,) = page.read()[0]["spans"]
    assert span["context"] == [] and span["kb_id"] == "C0009264"
    page.reload()
    page.fill("#text", TEXT)
    page.click("#link")
    expect(cold.locator("small")).not_to_contain_text("negated")
    # Who confirms a concept confirms the context that the page shows.
    page.read()
    cold.click()
    page.click("#withdraw")
    confirm(page, "cold")
    assert [span["context"] for span in page.read()[0]["spans"]] == [["negated"]]
    # It reaches documents.
    (document,) = read_prodigy(tmp_path / "gold.jsonl", ExchangeReport())
    assert [found.context for found in document.annotations] == [MentionContext(negated=True)]


def test_what_is_not_a_mention_is_in_the_gold_as_rejected(open_page, tmp_path):
    page = open_page(name="Anna")
    confirm(page, "heart attack")
    insomnia = get_mention(page, "insomnia")
    insomnia.focus()
    page.keyboard.press("Enter")
    page.locator("#reject").focus()
    page.keyboard.press("Enter")
    expect(insomnia).to_have_class("mention rejected")
    expect(insomnia.locator("small")).to_have_text("✓ not a mention")
    expect(insomnia).to_be_focused()
    expect(page.locator("#concept-list li")).to_have_count(2)
    page.click("#undo")
    get_mention(page, "cold").click()
    page.click("#reject")
    # Nor is it a negated one.
    expect(get_mention(page, "cold").locator("small")).to_have_text("✓ not a mention")
    page.click("#undo")
    insomnia.click()
    page.click("#reject")
    accepted, rejected = page.read()
    start = TEXT.index("insomnia")
    place = {"start": start, "end": start + 8, "label": "DISORDER", "annotator": "Anna"}
    assert rejected == {"text": TEXT, "spans": [place], "answer": "reject"} and accepted["answer"] == "accept"
    report = ExchangeReport()
    (document,) = read_prodigy(tmp_path / "gold.jsonl", report)
    assert [document.cut(found) for found in document.annotations] == ["heart attack"]
    assert report.left_out["examples that were rejected or ignored"]["count"] == 1
    # It comes back, and a concept takes its place.
    page.reload()
    page.fill("#text", TEXT)
    page.click("#link")
    expect(insomnia).to_have_class("mention rejected")
    insomnia.click()
    expect(page.locator("#about")).to_have_text("DISORDER · not a mention · by Anna")
    expect(page.locator("#context")).to_be_hidden()
    page.click(".candidate >> nth=0 >> button >> nth=0")
    expect(page.locator("#message")).to_have_text("Saved.")
    assert [row["answer"] for row in page.read()] == ["accept"]


def test_no_other_page_shows_this_one_in_a_frame(open_page, browser, tmp_path):
    page, other = open_page(), tmp_path / "other.html"
    other.write_text(f'<iframe src="{page.url}"></iframe>', encoding="utf8")
    with browser.new_context() as context:
        outer = context.new_page()
        outer.goto(other.as_uri())
        _, inner = outer.frames
        inner.wait_for_load_state()
        assert inner.url.startswith("chrome-error:"), inner.url


@pytest.mark.parametrize("width", [390, 1120])
def test_concepts_are_listed_the_doubtful_first_and_lead_to_their_mentions(open_page, width):
    text = "A heart attack, insomnia, a second heart attack, and she feels a cold."
    page = open_page(text, viewport={"width": width, "height": 844})

    def estimate(route):
        response = route.fetch()
        data = response.json()
        for entity, probability in zip(data["results"][0]["entities"], (0.95, 0.7, 0.4, 0.8), strict=True):
            entity["probability"] = probability
        route.fulfill(response=response, json=data)

    page.route("**/link", estimate)
    page.click("#link")
    if width == 390:
        page.click("#concept-count")
        assert page.locator("#concepts").bounding_box()["y"] < page.locator("#linked").bounding_box()["y"]
    rows = page.locator("#concept-list button:first-child")
    shown = [["C0027051", "probability from 40%"], ["C0917801", "probability 70%"], ["C0009264", "probability 80%"]]
    expect(rows.first).to_contain_text("40%")
    assert [row.locator("small").all_inner_texts() for row in rows.all()] == shown
    expect(rows.first.locator(".mention")).to_have_text("2")
    # With the keyboard, to one after the other, and then to the first.
    visited = []
    for _ in range(3):
        rows.first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#mention")).to_have_text("heart attack")
        visited.append(page.evaluate("Number(document.activeElement.dataset.start)"))
        page.keyboard.press("Escape")
    assert visited == [text.index("heart"), text.rindex("heart"), text.index("heart")]
    # What is decided comes last.
    confirm(page, "insomnia")
    page.keyboard.press("Escape")
    ids = [row.locator("small").first.inner_text() for row in rows.all()]
    assert ids == ["C0027051", "C0009264", "C0917801"]


@pytest.mark.parametrize("format", ["csv", "fhir"])
def test_what_the_page_shows_is_downloaded_for_other_programs(open_page, format):
    page = open_page()
    confirm(page, "heart attack")
    page.check("#uncertain")
    get_mention(page, "insomnia").click()
    page.click("#reject")
    page.select_option("#format", format)
    expect(page.locator("#download")).to_have_text("Download (2)")
    with page.expect_download() as download:
        page.focus("#download")
        page.keyboard.press("Enter")
    content = download.value.path().read_text(encoding="utf8")
    expect(page.locator("#message")).to_contain_text("Downloaded.")
    if format == "csv":
        assert content.startswith("\ufeff")
        attack, cold = csv.DictReader(content[1:].splitlines())
        found = [attack[column] for column in ("mention", "id", "score", "negated", "uncertain")]
        assert found == ["heart attack", "C0027051", "1.0", "false", "true"] and cold["negated"] == "true"
    else:
        attack, cold = map(json.loads, content.splitlines())
        assert TEXT[attack["start"] : attack["end"]] == attack["codeableConcept"]["text"] == "heart attack"
        assert attack["codeableConcept"]["coding"][0]["code"] == "C0027051"
        assert [row["verificationStatus"]["coding"][0]["code"] for row in (attack, cold)] == ["unconfirmed", "refuted"]


def test_a_compact_view_is_short_and_one_of_fixed_width_keeps_columns(open_page):
    page = open_page(
        "a cold, insomnia and a heart attack; " * 30 + "\ncold      1  x\ninsomnia  2  y\n",
        viewport={"width": 390, "height": 844},
    )
    measure = "document.querySelector('#linked').offsetHeight"
    # A phone begins with the compact one.
    assert page.locator("#view").input_value() == "compact"
    compact = page.evaluate(measure)
    expect(page.locator("#linked small:visible")).to_have_count(0)
    expect(get_mention(page, "cold")).to_have_attribute("title", "Cold Temperature · C0009264")
    page.focus("#view")
    page.keyboard.press("Home")
    assert page.evaluate(measure) > 2 * compact
    page.keyboard.press("End")
    edges = page.evaluate("""[...document.querySelectorAll("#linked .row")].map((row) => {
        const range = document.createRange();
        const text = row.lastElementChild.firstChild;
        range.setStart(text, text.data.search(/[12]/));
        return range.getBoundingClientRect().left;
    })""")
    assert len(edges) == 2 and edges[0] == pytest.approx(edges[1], abs=0.5)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("reloads", [False, True])
def test_the_panel_shows_what_was_chosen_by_search(open_page, reloads):
    page = open_page()
    get_mention(page, "heart attack").click()
    page.fill("#query", "insomnia")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("for “insomnia”")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_have_text("Saved.")
    if reloads:
        page.click("#link")
        expect(page.locator("#choice")).to_be_hidden()
        get_mention(page, "heart attack").click()
    chosen = page.locator("#candidates .chosen")
    expect(chosen).to_contain_text("C0917801")
    assert "undefined" not in chosen.inner_text() and "NaN" not in chosen.inner_text()
    chosen.get_by_text("Details").click()
    expect(chosen.locator("dd").first).to_contain_text("insomnia", ignore_case=True)
    page.click("#nil")
    expect(page.locator("#nil")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#about")).to_contain_text("no concept is right")
    expect(page.locator("#candidates .chosen")).to_have_count(0)


def test_two_annotators_see_whose_corrections_come(open_page):
    anna, ben = open_page(name="Anna"), open_page(name="Ben")
    theirs = get_mention(ben, "heart attack")
    get_mention(ben, "insomnia").click()
    ben.fill("#query", "half a que")
    confirm(anna, "heart attack")
    # Without any act of Ben's, and without disturbing one.
    expect(ben.locator("#message")).to_have_text("Anna has corrected “heart attack”.")
    expect(theirs).to_have_class("mention corrected")
    expect(ben.locator("#query")).to_be_focused()
    assert ben.locator("#query").input_value() == "half a que"
    theirs.click()
    expect(ben.locator("#about")).to_contain_text("by Anna")
    # Ben replaces it, and Anna can't take that back unseen.
    ben.click("#nil")
    expect(ben.locator("#message")).to_have_text("Saved.")
    listen(anna)
    expect(anna.locator("#message")).to_have_text("Ben has corrected “heart attack”.")
    expect(anna.locator("#about")).to_contain_text("by Ben")
    assert anna.locator("#undo").is_disabled()
    ben.click("#withdraw")
    expect(ben.locator("#message")).to_have_text("Withdrawn.")
    listen(anna)
    expect(anna.locator("#message")).to_have_text("Somebody else has withdrawn “heart attack”.")
    expect(get_mention(anna, "heart attack")).to_have_class("mention high")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast_and_a_phone_needs_no_scrolling_sideways(open_page, scheme):
    phone = {"width": 390, "height": 844}
    page = open_page(TEXT + " xyzzy " + "w" * 300, color_scheme=scheme, viewport=phone, reduced_motion="reduce")
    for summary in page.locator("summary:visible").all():
        summary.click()
    confirm(page, "heart attack")
    get_mention(page, "cold").click()
    page.click("#reject")
    page.select_option("#view", "")
    page.keyboard.press("Escape")
    expect(page.locator("#concept-list")).to_be_visible()
    assert page.evaluate(FIND_FAINT) == []
    get_mention(page, "insomnia").click()
    page.check("#family")
    page.click("text=Details >> nth=0")
    expect(page.locator("dd").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(FIND_FAINT) == []
    # A sheet at the bottom, and the mention above it.
    sheet, mention = page.locator("#panel").bounding_box(), get_mention(page, "insomnia").bounding_box()
    assert sheet["y"] + sheet["height"] == pytest.approx(844) and 0 <= mention["y"]
    assert mention["y"] + mention["height"] <= sheet["y"]
    assert page.evaluate("getComputedStyle(document.querySelector('#panel')).animationName") == "none"
    assert page.evaluate("""[...document.querySelectorAll("input, select, textarea")]
        .every((one) => one.labels.length || one.ariaLabel)""")


def test_a_long_note_keeps_the_panel_in_view_and_what_it_has_drawn(open_page):
    note = ("the patient was seen on the ward today and feels better overall but reports again a cold " * 2).split()
    text = "\n".join(" ".join(note[:19]) + " insomnia." for _ in range(500))
    assert len(text.split()) == 10_000
    page = open_page(text)
    mentions = page.locator("#linked .mention")
    expect(page.locator("#message")).to_contain_text("mentions")
    count = mentions.count()
    assert count >= 500
    page.evaluate("state.elements[0].isFirst = true")
    mentions.last.click()
    expect(page.locator(".chosen .main")).to_be_in_viewport()
    expect(page.locator("#message")).to_be_in_viewport()
    page.click(".chosen .main")
    expect(mentions.last).to_have_class("mention corrected")
    expect(mentions.last).to_be_in_viewport()
    assert page.evaluate("state.elements[0].isFirst && state.elements[0].isConnected")
    (span,) = page.read()[0]["spans"]
    assert text[span["start"] : span["end"]] == "insomnia" and mentions.count() == count
