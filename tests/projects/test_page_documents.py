"""Documents on the service's page: the list, the keys, the address, uploads and downloads."""

import csv
import json
import re
from contextlib import ExitStack

import pytest
from page_server import LateAnswer, launch_browser, needs_chromium, playwright, run_service, settle
from project_scripts import import_scripts

with import_scripts("service"):
    import limits
    import serve as service

expect = playwright.expect
pytestmark = needs_chromium

LONG = "A heart attack.\n" + "Nothing else.\n" * 200 + "Then insomnia.\r\nA cold."
FILES = {"a heart.txt": "A heart attack.", "b cold.txt": "No cold, but insomnia.", "c long.txt": LONG}


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def nlp(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("sapbert_reranker")
    return nlp


@pytest.fixture
def open_page(nlp, browser, tmp_path):
    """Return a function that serves documents and opens the page."""
    opened, errors = [], []
    stack = ExitStack()

    def open_page(files=FILES, fragment="", **options):
        (tmp_path / "given").mkdir(exist_ok=True)
        for name, content in files.items():
            (tmp_path / "given" / name).write_bytes(content.encode())
        settings = limits.ServiceSettings(documents=str(tmp_path / "given"), folder=str(tmp_path / "folder"))
        host = stack.enter_context(run_service(service.make_app(nlp, settings)))
        page = browser.new_context(**options).new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if "Security Policy" in said.text else None)
        opened.append(page)
        page.goto(f"http://{host}/{fragment}")
        expect(page.locator("#message")).to_contain_text("mention", timeout=20_000)
        return page

    with stack:
        yield open_page
        for page in opened:
            page.context.close()
    assert not errors


def expect_document(page, name, told="mention"):
    expect(page.locator("#document-name")).to_have_text(name, timeout=20_000)
    expect(page.locator("#message")).to_contain_text(told, timeout=20_000)
    expect(page).to_have_title(name)
    expect(page.locator("#document-list [aria-current]")).to_contain_text(name)


def confirm(page, words):
    page.locator("#linked .mention", has_text=words).first.click()
    page.click(".chosen .main")
    expect(page.locator("#message")).to_have_text("Saved.")


def list_rows(page):
    return page.locator("#document-list button").all_inner_texts()


def test_documents_are_listed_searched_and_opened(open_page):
    page = open_page()
    expect_document(page, "a heart")
    expect(page.locator("#document-list button")).to_have_count(3)
    expect(page.locator("#document-count")).to_have_text("0 of 3 documents done")
    page.fill("#document-query", "INSOMNIA no")
    expect(page.locator("#document-list button")).to_have_count(2)
    page.click("#document-list button >> nth=1")
    expect_document(page, "c long")
    expect(page.locator("#document-page")).to_have_text("1–2 of 2")
    page.click("#document-previous")
    expect_document(page, "b cold")
    page.click("#document-previous")
    expect(page.locator("#message")).to_contain_text("first document")
    page.fill("#document-query", "nowhere")
    expect(page.locator("#document-page")).to_have_text("No such document")
    page.fill("#document-query", "")
    page.select_option("#document-order", "uncertain")
    expect(page.locator("#document-list button")).to_have_count(3)


def test_documents_are_done_and_taken_back_with_keys(open_page):
    page = open_page()
    confirm(page, "heart attack")
    expect(page.locator("#document-list button >> nth=0")).to_contain_text("begun · 1 corrected")
    page.keyboard.press("Alt+Enter")
    expect_document(page, "b cold")
    expect(page.locator("#document-count")).to_have_text("1 of 3 documents done")
    page.keyboard.press("Alt+ArrowLeft")
    expect_document(page, "a heart")
    expect(page.locator("#document-about")).to_contain_text("done")
    page.click("#document-reopen")
    expect(page.locator("#document-about")).to_contain_text("begun")
    expect(page.locator("#document-count")).to_have_text("0 of 3 documents done")
    # From a mention as well, whose own keys are the arrows.
    page.locator("#linked .mention").first.focus()
    page.keyboard.press("Alt+ArrowRight")
    expect_document(page, "b cold")
    # Not while somebody writes.
    page.focus("#document-query")
    page.keyboard.press("Alt+Enter")
    page.select_option("#document-state", "begun")
    expect(page.locator("#document-list button")).to_have_count(1)
    page.select_option("#document-state", "")
    for name in ("b cold", "c long", "a heart"):
        expect_document(page, name)
        page.click("#document-done")
    expect(page.locator("#message")).to_have_text("All documents of this list are done.")
    expect(page.locator("#document-count")).to_have_text("3 of 3 documents done")


def test_a_document_is_not_done_while_a_correction_is_not_saved(open_page):
    page = open_page()
    page.route("**/gold", lambda route: route.abort())
    page.locator("#linked .mention").first.click()
    page.click("#nil")
    expect(page.locator("#message")).to_contain_text("Not saved yet")
    page.click("#document-done")
    expect(page.locator("#message")).to_contain_text("Not done yet")
    expect(page.locator("#document-count")).to_have_text("0 of 3 documents done")
    page.unroute("**/gold")
    page.click("#nil")
    expect(page.locator("#message")).to_have_text("Saved.")
    page.click("#document-done")
    expect_document(page, "b cold")


def test_what_is_withdrawn_again_has_begun(open_page):
    page = open_page()
    confirm(page, "heart attack")
    page.click("#withdraw")
    expect(page.locator("#message")).to_have_text("Withdrawn.")
    expect(page.locator("#document-list button >> nth=0")).to_contain_text("begun · 15 characters")


def test_the_address_names_the_document_and_a_reload_keeps_the_place(open_page):
    page = open_page(fragment="#name=Eve")
    page.click("#document-list button >> nth=2")
    expect_document(page, "c long")
    assert re.fullmatch(r".*#name=Eve&document=[0-9a-f]{16}", page.url)
    page.locator("#linked .mention", has_text="insomnia").click()
    scroll = page.evaluate("scrollY")
    assert scroll > 1000
    page.reload()
    expect_document(page, "c long")
    expect(page.locator("#mention")).to_have_text("insomnia")
    assert abs(page.evaluate("scrollY") - scroll) < 50
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    # The name of who corrects changes, and the document stays.
    page.evaluate("byId('annotator').value = 'Ada'; byId('annotator').onchange()")
    assert "document=" in page.url and "name=Ada" in page.url
    page.go_back()
    expect_document(page, "a heart")
    page.go_forward()
    expect_document(page, "c long")
    expect(page.locator("#mention")).to_have_text("insomnia")
    # A document that is gone is said, and a text can be tried.
    page.click("#try-text")
    expect(page.locator("#document-bar")).to_be_hidden()
    expect(page).to_have_title("Concepts in a text")
    page.fill("#text", "A cold.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#message")).to_have_text("1 mention.")
    page.click("#document-list button >> nth=1")
    expect_document(page, "b cold")
    page.go_back()
    expect(page.locator("#text")).to_have_value("A cold.")


def test_offsets_of_a_document_with_carriage_returns_are_its_own(open_page, tmp_path):
    page = open_page()
    page.click("#document-list button >> nth=2")
    expect_document(page, "c long")
    confirm(page, "cold")
    (row,) = map(json.loads, (tmp_path / "folder" / "corrections.jsonl").read_text("utf8").splitlines())
    (span,) = row["spans"]
    assert row["text"] == LONG and LONG[span["start"] : span["end"]] == "cold"


def test_a_document_that_is_gone_is_said(open_page):
    page = open_page()
    page.goto(page.url.partition("#")[0] + "#document=gone")
    page.reload()
    expect(page.locator("#message")).to_contain_text("mention")
    expect(page.locator("#document-bar")).to_be_hidden()


def test_files_are_added_by_choice_and_by_dropping_them(open_page, tmp_path):
    page = open_page({})
    expect(page.locator("#document-count")).to_have_text("No documents yet")
    files = [
        {"name": "first.txt", "mimeType": "text/plain", "buffer": "\ufeffA cold.".encode()},
        {"name": "t.jsonl", "mimeType": "", "buffer": b'{"text": "A heart attack.", "id": "x"}\nnothing\n'},
    ]
    page.set_input_files("#document-files", files)
    expect(page.locator("#document-count")).to_have_text("0 of 2 documents done")
    expect_document(page, "first", told="t.jsonl: 1 document. Not all of it can be used (1): line 2")
    page.set_input_files("#document-files", {"name": "l.txt", "mimeType": "", "buffer": "Kälte".encode("latin1")})
    expect(page.locator("#message")).to_contain_text("not UTF-8")
    page.set_input_files("#document-files", {"name": "first.txt", "mimeType": "", "buffer": b"another"})
    expect(page.locator("#message")).to_contain_text("another name")
    big = {"name": "big.txt", "mimeType": "", "buffer": b"a " * 1_500_000}
    page.set_input_files("#document-files", big)
    expect(page.locator("#message")).to_contain_text("--documents")
    # A table with columns that nobody knows: somebody chooses them, after the files were dropped.
    page.evaluate("""() => {
        const data = new DataTransfer();
        data.items.add(new File(["when,words\\nMay,flu\\nJune,a cold\\n"], "u.csv"));
        data.items.add(new File(["What waits meanwhile."], "v last.txt"));
        byId("documents").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }""")
    expect(page.locator("#document-columns")).to_be_visible()
    page.select_option("#text-column", "words")
    page.select_option("#name-column", "when")
    page.click("#take-columns")
    expect(page.locator("#document-count")).to_have_text("0 of 5 documents done")
    assert [row.partition("\n")[2].partition("\n")[0] for row in list_rows(page)] == [
        "first",
        "x",
        "May",
        "June",
        "v last",
    ]
    expect(page.locator("#document-problem-count")).to_have_text("1 note on the files")
    names = sorted(path.name for path in (tmp_path / "folder" / "documents").iterdir())
    assert names == ["first.txt", "t.jsonl", "u.csv.jsonl", "v last.txt"]


def download(page, button):
    with page.expect_download() as waiting:
        page.click(button)
    return waiting.value.path().read_text(encoding="utf8").removeprefix("\ufeff")


def test_downloads_have_the_names_of_documents(open_page):
    page = open_page()
    confirm(page, "heart attack")
    page.select_option("#format", "fhir")
    assert json.loads(download(page, "#download"))["document"] == "a heart"
    page.click("#document-download summary")
    page.select_option("#all-format", "csv")
    rows = csv.DictReader(download(page, "#download-all").splitlines())
    listed = [(row["document"], row["mention"], row["decided"]) for row in rows]
    assert listed[0] == ("a heart", "heart attack", "person")
    assert listed[1:] == [
        ("b cold", "cold", "pipeline"),
        ("b cold", "insomnia", "pipeline"),
        ("c long", "heart attack", "pipeline"),
        ("c long", "insomnia", "pipeline"),
        ("c long", "cold", "pipeline"),
    ]
    page.select_option("#all-format", "prodigy")
    (row,) = map(json.loads, download(page, "#download-all").splitlines())
    assert row["meta"] == {"document": "a heart", "state": "begun"}


def test_a_list_of_thousands_is_drawn_in_pages(open_page):
    lines = "".join(json.dumps({"text": f"A cold of {number}.", "id": f"n{number}"}) + "\n" for number in range(5000))
    page = open_page({"all.jsonl": lines})
    expect(page.locator("#document-count")).to_have_text("0 of 5,000 documents done")
    expect(page.locator("#document-list button")).to_have_count(50)
    page.click("#document-later")
    expect(page.locator("#document-page")).to_have_text("51–100 of 5,000")
    page.click("#document-list button >> nth=49")
    expect_document(page, "n99")
    page.click("#document-next")
    expect_document(page, "n100")
    expect(page.locator("#document-page")).to_have_text("101–150 of 5,000")


TURNS = {
    "another page": lambda page: page.click("#document-later"),
    "another document": lambda page: (page.click("#document-later"), page.click("#document-list button >> nth=49")),
    "a search": lambda page: page.fill("#document-query", "n99"),
}


@pytest.mark.parametrize("shown", TURNS)
def test_a_late_answer_does_not_turn_the_page_back(open_page, shown):
    lines = "".join(json.dumps({"text": f"A cold of {number}.", "id": f"n{number}"}) + "\n" for number in range(100))
    page = open_page({"all.jsonl": lines})
    expect_document(page, "n0")
    late = LateAnswer(page, "**/around?*")
    page.select_option("#document-state", "new")
    TURNS[shown](page)
    listed = page.locator("#document-list button", has_text="n99")
    expect(listed).to_be_visible()
    late.come()
    expect(listed).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_the_list_behind_its_heading(open_page, scheme):
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, color_scheme=scheme)
    expect(page.locator("#document-list")).to_be_hidden()
    page.click("#document-count")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("#document-list button >> nth=1")
    expect_document(page, "b cold")
    # The list is out of the way of the text.
    expect(page.locator("#document-list")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("#document-done")
    expect_document(page, "c long")


@pytest.mark.parametrize("width", [820, 1024, 1280, 1700])
def test_candidates_keep_their_room_beside_the_guidelines(open_page, tmp_path, width):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "guidelines.md").write_text("Take the longest name.")
    page = open_page(viewport={"width": width, "height": 900})
    page.locator("#linked .mention").first.click()
    expect(page.locator(".candidate").first).to_be_visible()
    page.keyboard.press("g")
    expect(page.locator("#guidelines")).to_be_visible()
    assert page.locator(".candidate strong").first.bounding_box()["width"] > 60
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("g")
    expect(page.locator("#documents")).to_be_visible()


def open_row(page, place):
    page.click(f"#document-list button >> nth={place}")


# What is asked for, and how.
STEPS = {
    "the next": ("**/around?*", lambda page: page.click("#document-next")),
    "the next that is open": ("**/around?*", lambda page: page.click("#document-done")),
    "done": ("**/state", lambda page: page.click("#document-done")),
}


@pytest.mark.parametrize("step", STEPS)
def test_who_opens_a_document_meanwhile_stays_there(open_page, step):
    page = open_page()
    expect_document(page, "a heart")
    pattern, act = STEPS[step]
    late = LateAnswer(page, pattern)
    act(page)
    late.wait()
    open_row(page, 2)
    expect_document(page, "c long")
    late.come()
    expect_document(page, "c long")


def test_who_opens_a_document_before_the_first_stays_there(open_page):
    page = open_page()
    page.click("#document-done")
    expect_document(page, "b cold")
    late = LateAnswer(page, "**/around")
    page.goto(page.url.partition("#")[0] + "#")
    page.reload()
    late.wait()
    open_row(page, 2)
    expect_document(page, "c long")
    late.come()
    expect_document(page, "c long")


def test_who_opens_a_document_while_files_are_added_stays_there(open_page):
    page = open_page()
    expect_document(page, "a heart")
    page.click("#try-text")
    expect(page.locator("#document-bar")).to_be_hidden()
    added, opened = LateAnswer(page, "**/documents"), LateAnswer(page, "**/documents/*")
    page.set_input_files("#document-files", {"name": "d.txt", "mimeType": "text/plain", "buffer": b"A cold."})
    added.wait()
    open_row(page, 2)
    opened.wait()
    added.come()
    expect(page.locator("#message")).to_contain_text("d.txt: 1 document")
    opened.come()
    expect_document(page, "c long")


def test_a_document_that_fails_late_is_not_said(open_page):
    page = open_page()
    expect_document(page, "a heart")
    late = LateAnswer(page, "**/documents/*")
    open_row(page, 1)
    late.wait()
    open_row(page, 2)
    expect_document(page, "c long")
    late.fail()
    expect_document(page, "c long")


def test_who_goes_back_and_forward_stays_there_and_keeps_the_places_of_both(open_page):
    page = open_page()
    expect_document(page, "a heart")
    page.locator("#linked .mention", has_text="heart attack").click()
    open_row(page, 2)
    expect_document(page, "c long")
    late = LateAnswer(page, "**/documents/*")
    page.evaluate("history.back()")
    late.wait()
    page.locator("#linked .mention", has_text="insomnia").click()
    page.evaluate("history.forward()")
    page.wait_for_function("() => readAddress().get('document') === state.document.id")
    late.come()
    expect_document(page, "c long")
    expect(page.locator("#mention")).to_have_text("insomnia")
    page.evaluate("history.back()")
    expect_document(page, "a heart")
    expect(page.locator("#mention")).to_have_text("heart attack")


def test_two_clicks_turn_no_page_after_the_last(open_page):
    lines = "".join(json.dumps({"text": f"A cold of {number}.", "id": f"n{number}"}) + "\n" for number in range(100))
    page = open_page({"all.jsonl": lines})
    for button, shown in (("later", "51–100 of 100"), ("earlier", "1–50 of 100")):
        page.evaluate(f"byId('document-{button}').click(), byId('document-{button}').click()")
        settle(page)
        expect(page.locator("#document-page")).to_have_text(shown)


# How somebody says twice that the first document is done.
REPETITIONS = {
    "a double click": lambda page: page.dispatch_event("#document-done", "click", {"detail": 2}),
    "a key held down": lambda page: page.keyboard.down("Enter"),
}


@pytest.mark.parametrize("again", REPETITIONS)
def test_who_says_twice_that_a_document_is_done_has_said_it_of_one(open_page, again):
    page = open_page()
    expect_document(page, "a heart")
    page.keyboard.down("Alt")
    page.keyboard.down("Enter")
    expect_document(page, "b cold")
    REPETITIONS[again](page)
    page.keyboard.up("Enter")
    page.keyboard.up("Alt")
    settle(page)
    expect_document(page, "b cold")
    expect(page.locator("#document-count")).to_have_text("1 of 3 documents done")


def test_a_key_pressed_twice_skips_no_document(open_page):
    page = open_page()
    expect_document(page, "a heart")
    late = LateAnswer(page, "**/state", skip=1)
    page.keyboard.press("Alt+Enter")
    page.keyboard.press("Alt+Enter")
    expect_document(page, "b cold")
    late.come()
    expect_document(page, "b cold")


def test_no_text_stands_under_the_name_of_another_document_and_is_done(open_page):
    page = open_page()
    expect_document(page, "a heart")
    late = LateAnswer(page, "**/link")
    open_row(page, 1)
    late.wait()
    expect(page.locator("#document-name")).to_have_text("b cold")
    expect(page.locator("#linked")).to_have_text("")
    page.keyboard.press("Alt+Enter")
    expect(page.locator("#message")).to_have_text("Not done yet: its text is not shown.")
    late.come()
    expect_document(page, "b cold")
    expect(page.locator("#document-count")).to_have_text("0 of 3 documents done")


def test_a_document_that_is_begun_and_done_at_once_is_done(open_page):
    page = open_page()
    expect_document(page, "a heart")
    late = LateAnswer(page, "**/state", "begun", is_sent=False)
    page.locator("#linked .mention").first.click()
    page.click(".chosen .main")
    late.wait()
    page.click("#document-done")
    settle(page)
    late.come()
    expect_document(page, "b cold")
    expect(page.locator("#document-list button >> nth=0")).to_contain_text("done · 1 corrected")


def test_the_list_is_of_the_state_that_was_asked_for_last(open_page):
    page = open_page()
    expect_document(page, "a heart")
    late = LateAnswer(page, "**/around?*")
    page.select_option("#document-state", "done")
    late.wait()
    open_row(page, 1)
    late.come()
    expect(page.locator("#document-page")).to_have_text("No such document")


def test_a_page_of_the_list_has_its_own_numbers(open_page):
    lines = "".join(json.dumps({"text": f"A cold of {number}.", "id": f"n{number}"}) + "\n" for number in range(100))
    page = open_page({"all.jsonl": lines})
    expect_document(page, "n0")
    listed, placed = LateAnswer(page, "**/documents?*"), LateAnswer(page, "**/around?*")
    page.click("#document-later")
    listed.wait()
    page.select_option("#document-state", "new")
    placed.wait()
    listed.come()
    expect(page.locator("#document-list button").first).to_contain_text("n50")
    expect(page.locator("#document-page")).to_have_text("51–100 of 100")
    placed.come()
    expect(page.locator("#document-page")).to_have_text("1–50 of 100")


def test_a_search_does_not_turn_the_list_away_from_a_document_that_was_opened_after_it(open_page):
    lines = "".join(json.dumps({"text": f"A cold of {number}.", "id": f"n{number}"}) + "\n" for number in range(100))
    page = open_page({"all.jsonl": lines})
    page.click("#document-list button >> nth=49")
    expect_document(page, "n49")
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 60)
    page.fill("#document-query", "cold")
    page.click("#document-next")
    expect_document(page, "n50")
    page.clock.run_for(1000)
    page.clock.resume()
    settle(page)
    expect(page.locator("#document-page")).to_have_text("51–100 of 100")


@pytest.mark.parametrize("step", ["#document-next", "#try-text"])
def test_the_focus_stays_with_who_writes(open_page, step):
    page = open_page()
    expect_document(page, "a heart")
    late = LateAnswer(page, "**/link")
    page.click(step)
    late.wait()
    page.click("#document-query")
    late.come()
    expect(page.locator("#document-query")).to_be_focused()


def test_what_is_corrected_while_concepts_are_looked_for_stays(open_page):
    page = open_page()
    expect_document(page, "a heart")
    late = LateAnswer(page, "**/link")
    page.evaluate("link(), null")
    late.wait()
    confirm(page, "heart attack")
    late.come()
    expect(page.locator("#message")).to_have_text("1 mention.")
    expect(page.locator("#linked .corrected")).to_have_count(1)


def test_who_is_faster_than_the_list_keeps_the_text(open_page):
    page = open_page()
    late = LateAnswer(page, "**/documents?*")
    page.goto(page.url.partition("#")[0] + "#")
    page.reload()
    late.wait()
    page.fill("#text", "A cold.")
    page.click("#link")
    expect(page.locator("#message")).to_have_text("1 mention.")
    page.click("#linked .mention")
    late.come()
    expect(page.locator("#document-list button")).to_have_count(3)
    expect(page.locator("#document-bar")).to_be_hidden()
    expect(page.locator("#mention")).to_be_visible()


def test_files_that_come_while_another_waits_for_its_columns_are_not_lost(open_page):
    page = open_page({})
    table = b"when,words\nMay,flu\n"
    for name, content in (("t.csv", table), ("u.csv", table), ("v.txt", b"A cold.")):
        page.set_input_files("#document-files", {"name": name, "mimeType": "", "buffer": content})
        expect(page.locator("#message")).to_have_text(re.compile("t.csv: choose|The files wait"))
    for name in ("t.csv", "u.csv"):
        expect(page.locator("#document-columns-legend")).to_have_text(f"Columns of {name}")
        page.select_option("#text-column", "words")
        page.click("#take-columns")
    expect(page.locator("#document-count")).to_have_text("0 of 3 documents done")
    expect(page.locator("#document-columns")).to_be_hidden()


def test_a_table_without_texts_is_left_out(open_page):
    page = open_page({})
    for name, content in (("t.csv", b"when,words\nMay,flu\n"), ("v.txt", b"A cold.")):
        page.set_input_files("#document-files", {"name": name, "mimeType": "", "buffer": content})
        expect(page.locator("#message")).to_have_text(re.compile("t.csv: choose|The files wait"))
    page.click("#skip-columns")
    expect(page.locator("#document-count")).to_have_text("0 of 1 documents done")
    expect(page.locator("#document-columns")).to_be_hidden()


def test_what_cannot_be_read_is_named_and_the_rest_added(open_page):
    page = open_page({})
    page.evaluate("""() => {
      const folder = new File([], "folder");
      folder.arrayBuffer = () => Promise.reject(new Error("a folder"));
      addFiles([new File(["A cold."], "a.txt"), folder, new File(["Flu."], "b.txt")]);
    }""")
    expect(page.locator("#message")).to_contain_text("folder: it can't be read")
    expect(page.locator("#document-count")).to_have_text("0 of 2 documents done")


def test_the_list_counts_a_correction_that_is_saved_late(open_page):
    page = open_page()
    expect_document(page, "a heart")
    late = LateAnswer(page, "**/gold", is_sent=False)
    page.locator("#linked .mention").first.click()
    with page.expect_response("**/state"):
        page.click(".chosen .main")
    settle(page)
    late.come()
    expect(page.locator("#document-list button >> nth=0")).to_contain_text("begun · 1 corrected")
