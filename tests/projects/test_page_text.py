"""The text on the page of the project `service`: long texts, looks, the guidelines beside it, fingers."""

import random
from itertools import combinations

import pytest
from page_server import launch_browser, needs_chromium, playwright, run_service
from project_scripts import import_scripts

with import_scripts("service"):
    import limits
    import serve as service

expect = playwright.expect
pytestmark = needs_chromium

PHONE = {"width": 390, "height": 844}
GUIDE = (
    "# Boundaries\n\nThe *shortest* words: `cold`. <img src=x onerror=alert(1)>\n\n| a | b |\n|---|---|\n| c | d |\n"
)
CANDIDATE = {"id": "C1", "concept_id": "C1", "canonical_name": "Cold", "name": "Cold", "score": 0.9, "types": []}
# Each mention of WORDS, in order, as the service may answer, with its class and what its chip says.
WORDS = "high medium low threshold object unknown bare negated rejected confirmed none"
BELOW = {"best": {"canonical_name": "Cold", "score": 0.5}, "measure": "score", "least": 0.7}
LOOKS = [
    ({"probability": 0.95}, "high", "ColdC1"),
    ({"probability": 0.6}, "medium", "ColdC1"),
    ({"probability": 0.1}, "low", "ColdC1"),
    ({"id": None, "probability": 0.99, "why": {**BELOW, "reason": "threshold"}}, "unlinked", "below the threshold"),
    ({"id": None, "why": {**BELOW, "reason": "filtered"}}, "unlinked", "filtered out"),
    ({"id": None, "why": {**BELOW, "reason": "something new"}}, "unlinked", "no concept"),
    ({"id": None}, "unlinked", "no concept"),
    ({"probability": 0.95, "context": ["negated"]}, "no-finding", "Cold · negatedC1"),
    ({"probability": 0.6}, "rejected", "✓ not a mention"),
    ({"probability": 0.6}, "corrected", "✓ ColdC1"),
    ({"probability": 0.6}, "corrected", "✓ no concept"),
]
# What a mention looks like without its colours.
SHAPE = """(one) => {
  const style = getComputedStyle(one);
  const ring = style.boxShadow.replace(/rgba?\\([^)]*\\)/g, "");
  const line = style.borderBottomColor.endsWith(", 0)") ? "none" : style.borderBottomStyle;
  const fill = style.backgroundColor === "rgba(0, 0, 0, 0)" ? "no fill" : "fill";
  const edge = style.borderBottomWidth === "0px" ? "" : "edge";
  return [ring, line, edge, style.textDecorationLine, style.textDecorationStyle, fill].join("|");
}"""


@pytest.fixture(scope="module")
def address(make_nlp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    (folder / "guidelines.md").write_text(GUIDE, encoding="utf8")
    app = service.make_app(make_nlp(), limits.ServiceSettings(folder=str(folder)))
    with run_service(app) as host:
        yield f"http://{host}"


@pytest.fixture
def open_page(address):
    """Return a function that opens the page with a text, and with mentions that the service seems to have found."""
    errors = []

    def open_page(text="", entities=(), **options):
        page = browser.new_page(**options)
        page.on("pageerror", lambda error: errors.append(str(error)))
        result = {"entities": list(entities)}
        page.route("**/link", lambda route: route.fulfill(json={"results": [result]}))
        page.goto(address)
        page.fill("#text", text)
        page.click("#link")
        page.wait_for_function("text => state.text === text", arg=text)
        return page

    with launch_browser() as browser:
        yield open_page
    assert not errors


def make_entity(text, start, word, **changes):
    place = {"start": start, "end": start + len(word), "text": word, "label": "DISORDER"}
    assert text[start : start + len(word)] == word
    return {**place, "id": "C1", "candidates": [CANDIDATE], **changes}


def make_long(separator):
    """Make 90,000 characters with 600 mentions."""
    choice = random.Random(0)
    pieces, starts, length = [], [], 0
    for number in range(600):
        filler = "".join(choice.choice("etaoin shrdlu ") for _ in range(140)).strip().ljust(140, "x") + " "
        starts.append(length + len(filler))
        pieces.append(filler + "cold" + (separator if number % 4 == 3 else ". "))
        length += len(pieces[-1])
    text = "".join(pieces).ljust(90_000 - 6, "y") + " zebra"
    return text, [make_entity(text, start, "cold", probability=0.6) for start in starts]


def show_looks(open_page, **options):
    """Open a page with a mention for each of LOOKS, and decide as their names say."""
    words = WORDS.split()
    text = "\n".join(words)
    entities = [make_entity(text, text.index(word), word, **look[0]) for word, look in zip(words, LOOKS, strict=True)]
    page = open_page(text, entities, **options)
    for name, button in (("rejected", "#reject"), ("confirmed", ".chosen .main"), ("none", "#nil")):
        page.locator("#linked .mention").nth(words.index(name)).click()
        page.click(button)
    page.keyboard.press("Escape")
    return page


@pytest.mark.parametrize("separator", ["\n", ". "])
def test_a_long_text_is_drawn_in_parts_and_only_what_changes_anew(open_page, separator):
    text, entities = make_long(separator)
    page = open_page(text, entities)
    assert page.locator("#linked .mention").count() == 600
    shown = page.evaluate("""() => {
        const copy = byId("linked").cloneNode(true);
        for (const chip of copy.querySelectorAll("small")) chip.remove();
        return [copy.textContent, Math.max(...[...copy.children].map((line) => line.textContent.length))];
    }""")
    assert shown[0] == text and shown[1] <= 2000
    # Far lines are not laid out, but a search in the page finds their words.
    is_drawn = "byId('linked').lastElementChild.lastElementChild.checkVisibility({ contentVisibilityAuto: true })"
    page.wait_for_function(f"!{is_drawn}")
    assert page.evaluate("window.find('zebra')")
    page.wait_for_function("scrollY > 1000")
    assert page.evaluate("String(getSelection())") == "zebra"
    expect(page.locator("#add")).to_have_text("Add “zebra”")
    # One correction makes one element anew; one more mention, one line.
    page.evaluate("""() => {
        window.before = [state.elements, [...byId("linked").children], [...byId("concept-list").children]];
        choose(300);
    }""")
    page.click(".chosen .main")
    expect(page.locator("#linked .mention").nth(300)).to_have_class("mention corrected")
    assert page.evaluate("state.elements.filter((one, place) => one !== before[0][place]).length") == 1
    assert page.evaluate("[...byId('linked').children].every((one, place) => one === before[1][place])")
    page.evaluate("""() => {
        const last = byId("linked").lastElementChild.lastElementChild.firstChild;
        getSelection().setBaseAndExtent(last, last.length - 5, last, last.length);
    }""")
    page.click("#add")
    expect(page.locator("#linked .draft")).to_be_in_viewport()
    assert page.evaluate("[...byId('linked').children].filter((one, place) => one !== before[1][place]).length") == 1
    page.keyboard.press("Escape")
    expect(page.locator("#linked .draft")).to_have_count(0)
    # Keys lead from one end to the other.
    page.locator("#linked .mention").nth(5).focus()
    for key, place in (("End", 599), ("ArrowLeft", 598), ("Home", 0)):
        page.keyboard.press(key)
        expect(page.locator("#linked .mention").nth(place)).to_be_focused()
        expect(page.locator("#linked .mention").nth(place)).to_be_in_viewport()
        assert page.evaluate("state.elements.filter((one) => one.ariaPressed === 'true').length") == 1


def test_lines_are_cut_between_sentences_words_or_characters(open_page):
    page = open_page()
    texts = [
        "",
        "a",
        "\n",
        "a\n\nb",
        "😀" * 3001,
        "x" + "😀" * 3001,
        "one two. " * 900,
        "发热。" * 3000,
        "w " * 1999 + "\n",
    ]
    choice = random.Random(1)
    texts += ["".join(choice.choices("ab .\n😀", weights=[90, 90, 9, 1, 0.05, 9], k=9000)) for _ in range(20)]
    cut = page.evaluate(
        """(texts) => texts.map((text) => {
            const ends = cutLines(text);
            return ends.map((end, place) => text.slice(ends[place - 1] || 0, end));
        })""",
        texts,
    )
    for text, pieces in zip(texts, cut, strict=True):
        assert "".join(pieces) == text
        assert all(piece and len(piece.encode("utf-16-le")) <= 2 * 2001 for piece in pieces)
        assert all("\n" not in piece[:-1] for piece in pieces)
    assert all(piece.endswith(". ") for piece in cut[6])
    assert all(piece.endswith("。") for piece in cut[7])


def test_a_mention_over_several_lines_joins_them(open_page):
    text = "a cold\n\nheart\n attack, a cold"
    page = open_page(text, [make_entity(text, 2, "cold"), make_entity(text, 8, "heart\n attack")])
    lines = "[...byId('linked').children].map((line) => line.querySelectorAll('.mention').length)"
    assert page.evaluate(lines) == [1, 0, 1]
    page.locator("#linked .mention").nth(1).click()
    page.click("#reject")
    expect(page.locator("#linked .rejected")).to_contain_text("heart attack")
    assert page.evaluate(lines) == [1, 0, 1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_kinds_of_mentions_are_told_apart_without_colours(open_page, scheme):
    page = show_looks(open_page, color_scheme=scheme)
    mentions = page.locator("#linked .mention")
    for place, (_, kind, chip) in enumerate(LOOKS):
        expect(mentions.nth(place)).to_have_class(f"mention {kind}")
        expect(mentions.nth(place).locator("small")).to_have_text(chip)
    # The figure of a mention without a concept makes it neither likely nor listed.
    expect(page.locator("#legend .high")).to_have_text("1")
    expect(page.locator("#concept-list li")).to_have_count(1)
    assert "99%" not in page.locator("main").inner_text()
    page.evaluate("document.activeElement.blur()")
    shapes = {kind: mentions.nth(place).evaluate(SHAPE) for place, (_, kind, _) in enumerate(LOOKS)}
    for one, other in combinations(shapes, 2):
        assert shapes[one] != shapes[other], (one, other)
    assert "no fill" in shapes["unlinked"] and "no fill" in shapes["rejected"]
    # Whichever mention is chosen has a ring, in another colour than the line below likely ones.
    for place, (_, kind, _) in enumerate(LOOKS):
        page.evaluate("place => choose(place)", place)
        ring = mentions.nth(place).evaluate(SHAPE).split("|")[0]
        assert "4.5px" in ring and ring != shapes[kind].split("|")[0]
        colour, ink = mentions.nth(place).evaluate(
            "one => [getComputedStyle(one).boxShadow, getComputedStyle(document.body).color]"
        )
        assert ink in colour


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_room_for_fingers_and_the_bar_covers_no_mention(open_page, scheme):
    text = "she has a cold and then nothing else for a long while, until it comes again\n" * 60
    starts = [at for at in range(len(text)) if text.startswith("cold", at)]
    entities = [make_entity(text, start, "cold", probability=0.6) for start in starts]
    page = open_page(text, entities, viewport=PHONE, color_scheme=scheme, reduced_motion="reduce")
    small = """[...document.querySelectorAll("button, select, summary, input[type=search]")]
        .filter((one) => one.checkVisibility() && !one.closest("#concept-list"))
        .map((one) => [one.id || one.textContent, one.getBoundingClientRect()])
        .filter(([, box]) => box.height < 40 || box.width < 40).map(([name]) => name)"""
    assert page.evaluate(small) == []
    mentions = page.locator("#linked .mention")
    mentions.nth(30).click()
    expect(page.locator(".chosen .main")).to_be_visible()
    assert page.evaluate(small) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("document.getAnimations().length") == 0
    # Up and down, the chosen one is below the bar and above the sheet.
    mentions.nth(30).focus()
    for key in ["ArrowUp"] * 12 + ["ArrowDown"] * 20:
        page.keyboard.press(key)
        places = ("#linked [aria-pressed=true]", ".bar", "#panel")
        one, bar, sheet = (page.locator(place).bounding_box() for place in places)
        assert bar["y"] + bar["height"] <= one["y"] and one["y"] + one["height"] <= sheet["y"]


@pytest.mark.parametrize("viewport", [PHONE, {"width": 1280, "height": 900}], ids=["phone", "desktop"])
def test_guidelines_open_and_close_by_key_and_button(open_page, viewport):
    page = open_page("a cold", [make_entity("a cold", 2, "cold")], viewport=viewport)
    panel = page.locator("#guidelines")
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    # A letter that somebody writes is no command.
    page.focus("#text")
    page.keyboard.press("g")
    page.keyboard.press("Tab")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Control+g")
    expect(panel).to_be_hidden()
    page.keyboard.press("g")
    expect(panel.locator("h3")).to_have_text("Boundaries")
    expect(panel.locator("td")).to_have_text(["c", "d"])
    expect(panel.locator("p")).to_have_text("The shortest words: cold. <img src=x onerror=alert(1)>")
    assert panel.locator("img").count() == 0 and asked == []
    expect(page.locator("#guidelines-title")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    if viewport != PHONE:
        # It lies beside the text, and not on it.
        assert panel.bounding_box()["width"] <= page.locator("#linked").bounding_box()["x"]
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.locator("#guide")).to_be_focused()
    page.click("#guide")
    expect(panel).to_be_visible()
    expect(page.locator("#guide")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("g")
    expect(panel).to_be_hidden()
    # The page leaves out nodes that it does not know.
    nodes = [
        {"tag": "script", "children": ["alert(1)"]},
        {"tag": "a", "href": "javascript:alert(1)", "children": ["x"]},
    ]
    page.route("**/guidelines", lambda route: route.fulfill(json={"exists": True, "nodes": nodes}))
    page.keyboard.press("g")
    expect(panel.locator("a")).to_have_text("x")
    assert panel.locator("script").count() == 0 and panel.locator("a").get_attribute("href") is None
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
