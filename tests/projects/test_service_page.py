"""The page of the project `service` in a browser: what a reader sees, the keyboard, phones, and long notes."""

import json
import shutil
import threading
import time

import pytest
import uvicorn
from project_scripts import import_scripts

from spacy_sapbert.context import MentionContext, write_context

with import_scripts("service"):
    import limits
    import serve as service

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

TEXT = "😀 A heart attack, then insomnia.\n\nNo cold, but she sleeps badly."
# Text whose contrast with what is behind it is less than AA asks for: 4.5, or 3 for large letters.
FIND_FAINT = """() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color.length === 3) return color;
      if (color[3] !== 0) throw Error("half transparent");
    }
    throw Error("no ground");
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!element.offsetParent || !(own || element.matches("textarea, input[type=search], select"))) continue;
    const styles = [getComputedStyle(element)];
    if (element.placeholder) styles.push(getComputedStyle(element, "::placeholder"));
    for (const style of styles) {
      const [low, high] = [light(parse(style.color)), light(ground(element))].sort((one, other) => one - other);
      const ratio = (high + 0.05) / (low + 0.05);
      if (style.opacity !== "1" || ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5))
        found.push(`${element.tagName} ${element.className} ${element.textContent.slice(0, 30)} ${ratio}`);
    }
  }
  return found;
}"""


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
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def open_page(nlp, browser, tmp_path):
    """Return a function that opens the page of a service and links a text. Its method `read` reads the kept lines."""
    opened, path = [], tmp_path / "gold.jsonl"

    def open_page(text=TEXT, *, keeps=True, **options):
        settings = limits.ServiceSettings(gold=str(path) if keeps else None)
        server = uvicorn.Server(uvicorn.Config(service.make_app(nlp, settings), port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        context = browser.new_context(**options)
        page = context.new_page()
        errors, hosts = [], set()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
        host = f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        opened.append((context, server, thread, errors, hosts, host))
        page.goto(f"http://{host}/")
        expect(page.locator("#message")).to_contain_text("mention")
        page.fill("#text", text)
        page.keyboard.press("Control+Enter")
        page.wait_for_function("text => state.text === text", arg=text)

        def read():
            page.evaluate("state.saving")
            return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()] if path.exists() else []

        page.read = read
        return page

    yield open_page
    for context, server, thread, errors, hosts, host in opened:
        context.close()
        server.should_exit = True
        thread.join(30)
        # Nothing comes from elsewhere.
        assert not errors and hosts == {host}


def get_mention(page, words):
    return page.locator("#linked .mention", has_text=words).first


def confirm(page, words, told="Saved."):
    """Take the first candidate of a mention, and wait for what the page says."""
    get_mention(page, words).click()
    page.click(".chosen .main")
    expect(page.locator("#message")).to_contain_text(told)


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


def test_what_somebody_else_has_corrected_is_shown_before_it_is_replaced(open_page):
    one, other = open_page(), open_page()
    mine, theirs = (get_mention(page, "heart attack") for page in (one, other))
    confirm(other, "heart attack")
    mine.click()
    one.click("#nil")
    expect(one.locator("#message")).to_contain_text("Not saved: somebody else has corrected the same words")
    (span,) = one.read()[0]["spans"]
    assert span["kb_id"] == "C0027051"
    # The page shows it when it is asked to, and then a second decision counts.
    confirm(one, "insomnia", "Not saved: somebody else")
    one.click("#link")
    expect(one.locator("#message")).to_contain_text("Somebody else has corrected the same words")
    expect(mine).to_contain_text("✓ Myocardial InfarctionC0027051", ignore_case=True)
    assert one.locator("#undo").is_disabled()
    mine.click()
    one.click("#nil")
    expect(one.locator("#message")).to_have_text("Saved.")
    assert [span["kb_id"] for span in one.read()[0]["spans"]] == ["NIL", "C0917801"]
    # What somebody else has withdrawn is not withdrawn from a third.
    other.click("#link")
    expect(theirs).to_contain_text("no concept")
    theirs.click()
    other.click("#withdraw")
    expect(other.locator("#message")).to_have_text("Withdrawn.")
    mine.click()
    one.click(".candidate >> nth=0 >> button >> nth=0")
    expect(one.locator("#message")).to_contain_text("Not saved")


def test_without_a_file_the_page_holds_corrections_for_download(open_page):
    page = open_page(keeps=False)
    confirm(page, "heart attack", "on this page only")
    with page.expect_download() as download:
        page.click("#download")
    row = json.loads(download.value.path().read_text(encoding="utf8"))
    (span,) = row["spans"]
    assert row["text"][span["start"] : span["end"]] == "heart attack" and [*span] == ["start", "end", "label", "kb_id"]
    # The page asks before it forgets them.
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.close(run_before_unload=True)
    page.wait_for_timeout(500)
    assert asked == ["beforeunload"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast_and_a_phone_needs_no_scrolling_sideways(open_page, scheme):
    phone = {"width": 390, "height": 844}
    page = open_page(TEXT + " xyzzy " + "w" * 300, color_scheme=scheme, viewport=phone, reduced_motion="reduce")
    page.click("summary >> nth=0")
    page.click("summary >> nth=1")
    confirm(page, "heart attack")
    get_mention(page, "insomnia").click()
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
        .every((one) => one.labels.length)""")


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
