"""The page of the project `service`: its keys, many mentions at once, boundaries, the hierarchy and reasons."""

import json

import pytest
import spacy
from conftest import build_terminology
from page_server import LateAnswer, launch_browser, needs_chromium, playwright, run_service
from project_scripts import import_scripts

from spacy_sapbert.context import MentionContext, write_context
from spacy_sapbert.encoder.shim import make_huggingface_loader

with import_scripts("service"):
    import limits
    import serve as service

expect = playwright.expect
pytestmark = needs_chromium

NAMES = {
    "K": ["kidney disease"],
    "CKD": ["chronic kidney disease", "Niereninsuffizienz"],
    "S4": ["stage 4", "CKD stage 4"],
    "S5": ["stage 5", "CKD stage 5"],
    "I": ["insomnia", "insomnie sévère"],
    "F": ["fever", "Fieber", "fièvre"],
    "C": ["cough", "Husten"],
}
PARENTS = {"CKD": ["K"], "S4": ["CKD"], "S5": ["CKD"]}
TEXT = "😀 Stage 5 today, insomnia and fever. No cough. Insomnia again."
PROBABILITIES = [0.95, 0.7, 0.4, 0.9, 0.8]


@pytest.fixture(scope="module")
def nlp(encoder_folder):
    nlp = spacy.blank("fr")  # which splits "l'insomnie"
    ruler = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    names = [name for of_concept in NAMES.values() for name in of_concept]
    ruler.add_patterns([{"label": "DISORDER", "pattern": name} for name in [*names, "xyzzy"]])
    linker = nlp.add_pipe("sapbert_linker", config={"threshold": 0.999})
    loader = make_huggingface_loader(str(encoder_folder))
    linker.initialize(terminology=build_terminology(NAMES, parents=PARENTS), encoder=loader)

    def mark(doc):
        for ent in doc.ents:
            write_context(ent, MentionContext(negated=bool(ent.start and doc[ent.start - 1].lower_ == "no")))
        return doc

    type(nlp).component("interaction_context", func=mark)
    nlp.add_pipe("interaction_context", last=True)
    return nlp


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as browser:
        yield browser


@pytest.fixture
def open_page(nlp, browser, tmp_path):
    """Return a function that opens the page with a text, whose mentions may have probabilities."""
    path = tmp_path / "gold.jsonl"
    app = service.make_app(nlp, limits.ServiceSettings(gold=str(path)))
    contexts, errors = [], []

    def open_page(text=TEXT, probabilities=None, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))

        def estimate(route):
            response = route.fetch()
            data = response.json()
            entities = data["results"][0].get("entities", ())
            for entity, share in zip(
                entities, probabilities if len(entities) == len(probabilities) else (), strict=False
            ):
                entity["probability"] = share
            route.fulfill(response=response, json=data)

        if probabilities:
            page.route("**/link", estimate)
        page.goto(f"http://{host}/")
        page.fill("#text", text)
        page.keyboard.press("Control+Enter")
        page.wait_for_function("text => state.text === text", arg=text)
        page.evaluate("document.activeElement.blur()")
        page.read = lambda: (page.evaluate("state.saving"), read(path))[1]
        return page

    with run_service(app) as host:
        yield open_page
        for context in contexts:
            context.close()
    assert not errors


def read(path):
    """Read the words, the id and the context of each kept span; the id is None where the words are no mention."""
    rows = map(json.loads, path.read_text(encoding="utf8").splitlines()) if path.exists() else ()
    return sorted(
        (span["start"], row["text"][span["start"] : span["end"]], span.get("kb_id"), span.get("context"))
        for row in rows
        for span in row["spans"]
    )


def list_kept(page):
    return [(words, id_) for _, words, id_, _ in page.read()]


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def get_mention(page, words):
    return page.locator("#linked .mention", has_text=words).first


def get_focused(page):
    return page.evaluate("state.mentions[state.elements.indexOf(document.activeElement)]?.text")


def expect_message(page, *words):
    for part in words:
        expect(page.locator("#message")).to_contain_text(part)


# The keys, the words and ids that are kept then, what has the focus, and what the page says.
KEYS = [
    ("j c", [("Stage 5", "S5")], "insomnia", "“Stage 5”: stage 5. Next: “insomnia”"),
    ("j j 2", [("insomnia", "*")], "fever", "“insomnia”: "),
    ("j 1", [("Stage 5", "S5")], "insomnia", "stage 5"),
    ("j n", [("Stage 5", "NIL")], "insomnia", "no concept is right"),
    ("j 0", [("Stage 5", "NIL")], "insomnia", "no concept is right"),
    ("j x", [("Stage 5", None)], "insomnia", "not a mention"),
    ("j c c", [("Stage 5", "S5"), ("insomnia", "I")], "fever", "“insomnia”"),
    ("j j j k", [], "insomnia", "“insomnia”: insomnia, similarity 100%"),
    ("k", [], "Insomnia", "“Insomnia”"),
    ("j k", [], "Stage 5", "This is the first mention."),
    ("j j a", [("insomnia", "I"), ("Insomnia", "I")], None, "Confirmed 2 mentions: insomnia."),
    ("j 9", [], "Stage 5", "There is no candidate 9."),
    ("9", [], None, "Choose a mention first"),
    ("j j c Control+z", [], "insomnia", "Undone."),
    ("j j a Control+z", [], None, "Undone."),
]


@pytest.mark.parametrize("keys, kept, focus, message", KEYS, ids=[row[0] for row in KEYS])
def test_each_key_does_what_the_dialog_says(open_page, keys, kept, focus, message):
    page = open_page()
    for key in keys.split():
        press(page, key)
        page.evaluate("state.saving")
        expect(page.locator("#candidates .hint")).to_have_count(0)
    expect_message(page, message)
    found = list_kept(page)
    assert [words for words, _ in found] == [words for words, _ in kept]
    assert all(expected in (id_, "*") for (_, id_), (_, expected) in zip(found, kept, strict=True))
    if focus:
        assert get_focused(page) == focus


def test_the_least_certain_comes_first_and_nil_is_no_certainty(open_page):
    page = open_page(TEXT + " xyzzy", [*PROBABILITIES, 0.99])
    seen = []
    for _ in range(6):
        press(page, "u")
        seen.append(get_focused(page))
    assert seen == ["fever", "insomnia", "Insomnia", "cough", "Stage 5", "fever"]
    expect_message(page, "“fever”: fever, probability 40%.")
    # Of "xyzzy", 99% is the chance that no concept is right.
    expect(page.locator("#confirm-certain")).to_have_text("Confirm all (2)")
    press(page, "Shift+A")
    expect_message(page, "Confirmed 2 mentions: probability of at least 90%.")
    assert list_kept(page) == [("Stage 5", "S5"), ("cough", "C")]
    page.select_option("#least", "0.7")
    page.click("#confirm-certain")
    expect_message(page, "Confirmed 2 mentions")
    assert len(page.read()) == 4
    # Each is one step.
    press(page, "Control+z")
    page.evaluate("document.activeElement.blur()")
    expect_message(page, "Undone.")
    assert len(page.read()) == 2
    page.click("#undo")
    expect(page.locator("#undo")).to_be_disabled()
    assert page.read() == []
    get_mention(page, "xyzzy").click()
    expect(page.locator("#about")).to_contain_text("chance that no concept is right 99%")
    expect(page.locator("#why")).to_contain_text("Below the threshold: the best candidate")


def test_all_of_a_concept_are_confirmed_with_their_contexts(open_page):
    page = open_page("No fever. Then fever, then a cough.")
    get_mention(page, "fever").click()
    expect(page.locator("#confirm-concept")).to_have_text("Confirm all of this concept (2)")
    page.click("#confirm-concept")
    expect_message(page, "Confirmed 2 mentions: fever.")
    # What the pipeline suggests is kept, also where it is nothing.
    assert [(words, context) for _, words, _, context in page.read()] == [("fever", ["negated"]), ("fever", [])]
    expect(page.locator("#confirm-concept")).to_be_hidden()
    page.locator("#concept-list li", has_text="cough").locator(".confirm").click()
    expect_message(page, "Confirmed 1 mention: cough.")
    expect(page.locator("#concept-list .confirm")).to_have_count(0)


@pytest.mark.parametrize("key, word", zip("NUFHY", MentionContext._fields[:5], strict=True))
def test_contexts_have_keys(open_page, key, word):
    page = open_page()
    get_mention(page, "fever").click()
    press(page, f"Shift+{key}")
    expect(page.locator(f"#{word}")).to_be_checked()
    expect_message(page, f"“fever”: {word}.")
    assert [context for *_, context in page.read()] == [[word]]
    press(page, f"Shift+{key}")
    expect_message(page, f"“fever”: not {word}.")
    assert [context for *_, context in page.read()] == [[]]


def test_suggested_contexts_are_marked_until_somebody_decides(open_page):
    page = open_page()
    get_mention(page, "cough").click()
    expect(page.locator("#context small:visible")).to_have_count(1)
    expect(page.locator("#negated")).to_be_checked()
    page.click("#candidates .chosen .main")
    expect(page.locator("#context small:visible")).to_have_count(0)
    assert [context for *_, context in page.read()] == [["negated"]]


def test_keys_do_nothing_while_somebody_writes_or_with_control(open_page):
    page = open_page()
    get_mention(page, "fever").click()
    for field in ("#text", "#query", "#annotator"):
        if field == "#annotator":
            page.click(".controls summary")
        page.focus(field)
        page.keyboard.type("cxn1?")
    page.focus("#view")
    press(page, "c", "x")
    page.focus("#k")
    press(page, "c", "1")
    get_mention(page, "fever").focus()
    press(page, "Control+x", "Alt+x", "Meta+c")
    assert page.read() == [] and page.locator("#keys").is_hidden()


def test_the_dialog_lists_all_keys(open_page):
    page = open_page(viewport={"width": 390, "height": 844})
    press(page, "?")
    dialog = page.locator("#keys")
    expect(dialog).to_be_visible()
    shown = dialog.inner_text()
    assert page.evaluate("KEYS.every(({ does }) => document.querySelector('#key-list').textContent.includes(does))")
    assert "Shift+A" in shown and "no concept is right" in shown
    assert min(row.bounding_box()["width"] for row in dialog.locator("dd").all()) > 150
    # Keys have no effect behind it.
    press(page, "j", "x")
    assert page.evaluate("state.chosen") == -1
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    press(page, "Escape")
    expect(dialog).to_be_hidden()
    page.click("#show-keys")
    dialog.get_by_role("button").click()
    expect(dialog).to_be_hidden()


# A French keyboard has digits behind the shift key.
@pytest.mark.parametrize("event", [{"key": "&", "code": "Digit1"}, {"key": "1", "code": "Digit1", "shiftKey": True}])
def test_digits_of_other_keyboards(open_page, event):
    page = open_page()
    get_mention(page, "fever").click()
    page.evaluate(
        "event => document.body.dispatchEvent(new KeyboardEvent('keydown', { ...event, bubbles: true }))", event
    )
    assert list_kept(page) == [("fever", "F")]


# The text, the mention, the keys, and the words then.
BOUNDS = [
    ("He has chronic stage 5 disease.", "stage 5", "s", "chronic stage 5"),
    ("He has chronic stage 5 disease.", "stage 5", "r", "stage 5 disease"),
    ("He has chronic stage 5 disease.", "stage 5", "r r", "stage 5 disease."),
    ("He has chronic stage 5 disease.", "stage 5", "d", "5"),
    ("He has chronic stage 5 disease.", "stage 5", "e", "stage"),
    ("He has chronic stage 5 disease.", "stage 5", "e Shift+E", "stag"),
    ("He has chronic stage 5 disease.", "stage 5", "Shift+S", "c stage 5"),
    ("No (mild) pain, fever (high).", "fever", "s", "pain, fever"),
    ("No (mild) pain, fever (high).", "fever", "s s", "mild) pain, fever"),
    ("No (mild) pain, fever (high).", "fever", "r", "fever (high"),
    ("Mäßig hohes Fieber, überraschend 😀.", "Fieber", "s", "hohes Fieber"),
    ("Mäßig hohes Fieber, überraschend 😀.", "Fieber", "s s", "Mäßig hohes Fieber"),
    ("Mäßig hohes Fieber, überraschend 😀.", "Fieber", "r r r", "Fieber, überraschend 😀"),
    ("Une petite fièvre à 40 °C, 👩‍⚕️ l'été dernier", "fièvre", "r r", "fièvre à 40"),
    ("👩‍⚕️ d'une fie\u0300vre, fièvre 😀x", "fièvre", "Shift+R", "fièvre 😀"),
    ("👩‍⚕️ l'insomnie sévère", "insomnie sévère", "s s", "l'insomnie sévère"),
    ("👩‍⚕️ l'insomnie sévère", "insomnie sévère", "s s s", "👩‍⚕️ l'insomnie sévère"),
    ("👩‍⚕️ l'insomnie sévère", "insomnie sévère", "e Shift+D", "nsomnie"),
]


@pytest.mark.parametrize("text, words, keys, moved", BOUNDS, ids=range(len(BOUNDS)))
def test_keys_move_boundaries(open_page, text, words, keys, moved):
    page = open_page(text)
    get_mention(page, words).click()
    id_ = page.evaluate("state.mentions[state.chosen].id")
    press(page, *keys.split())
    expect_message(page, f"Now “{moved}”.")
    expect(page.locator("#mention")).to_have_text(moved)
    assert get_focused(page) == moved
    # It keeps its concept and context, and takes the place of the proposal.
    ((start, kept, kept_id, context),) = page.read()
    assert (kept, kept_id, context) == (moved, id_, []) and text[start:].startswith(moved)
    assert page.locator("#linked .mention").count() == page.evaluate("state.found.length")
    # Each step is undone.
    for _ in keys.split():
        press(page, "Control+z")
    expect(page.locator("#undo")).to_be_disabled()
    assert page.read() == []
    expect(page.locator("#mention")).to_have_text(words)


def test_a_moved_mention_overlaps_no_other_correction_and_leaves_no_proposal(open_page):
    page = open_page("He has fever and cough now.")
    get_mention(page, "cough").click()
    press(page, "c")
    get_mention(page, "fever").click()
    press(page, "r", "r")
    expect_message(page, "“cough” is confirmed or corrected, and mentions don't overlap.")
    assert list_kept(page) == [("fever and", "F"), ("cough", "C")]
    # What it has left word by word does not come back as a proposal.
    press(page, "d")
    expect_message(page, "Now “and”.")
    assert [words for words, _ in list_kept(page)] == ["fever", "and", "cough"]
    expect(get_mention(page, "fever")).to_have_class("mention rejected")
    press(page, "Control+z")
    expect_message(page, "Undone.")
    assert list_kept(page) == [("fever and", "F"), ("cough", "C")]


def test_what_is_said_while_a_correction_is_saved_is_not_overwritten(open_page):
    page = open_page("He has fever and cough now.")
    get_mention(page, "cough").click()
    press(page, "c")
    expect_message(page, "“cough”")
    get_mention(page, "fever").click()
    page.evaluate("state.saving = state.saving.then(() => new Promise((resolve) => setTimeout(resolve, 300)))")
    press(page, "r", "r")
    assert [words for words, _ in list_kept(page)] == ["fever and", "cough"]
    assert "mentions don't overlap" in page.locator("#message").text_content()


def test_a_mention_without_a_concept_waits_for_one_when_it_moves(open_page):
    page = open_page("Much xyzzy here.")
    get_mention(page, "xyzzy").click()
    press(page, "s", "d", "s")
    expect_message(page, "Now “Much xyzzy”: choose its concept.")
    assert page.read() == []
    press(page, "n")
    expect_message(page, "no concept is right")
    assert list_kept(page) == [("Much xyzzy", "NIL")]


def test_a_mention_that_moves_twice_before_the_service_answers_leaves_nothing(open_page):
    page = open_page("He has foo bar now.")
    page.evaluate("""() => {
        const node = document.querySelector("#linked [data-start]").firstChild;
        getSelection().setBaseAndExtent(node, 7, node, 10);
    }""")
    page.click("#add")
    press(page, "n")
    assert list_kept(page) == [("foo", "NIL")]
    page.evaluate("state.saving = state.saving.then(() => new Promise((resolve) => setTimeout(resolve, 300)))")
    press(page, "r", "d")
    expect_message(page, "Now “bar”.")
    assert list_kept(page) == [("bar", "NIL")]
    press(page, "Control+z", "Control+z")
    expect(page.locator("#mention")).to_have_text("foo")
    assert list_kept(page) == [("foo", "NIL")]


def find_middle(page, words):
    """Find where some words stand on the screen: the middle of their last letter."""
    return page.evaluate(
        """words => {
            const end = state.text.indexOf(words) + words.length;
            const { right, top, bottom } = findEdges({ start: end - 1, end }).end;
            return [right - 1, (top + bottom) / 2];
        }""",
        words,
    )


@pytest.mark.parametrize("scale", ["mouse", "touch"])
def test_handles_move_boundaries(open_page, scale):
    text = "😀 Mäßig hohes Fieber, überraschend für uns; then a cough."
    page = open_page(text, viewport={"width": 390, "height": 844}, has_touch=scale == "touch")
    expect(page.locator(".handle:visible")).to_have_count(0)
    get_mention(page, "Fieber").click()
    expect(page.locator(".handle:visible")).to_have_count(2)
    before = page.read()

    def drag(side, words):
        box = page.locator(f".handle.{side}").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        # The handle stands beside its words.
        edges = page.evaluate("""side => {
            const box = findEdges(state.mentions[state.chosen])[side];
            return [side === "start" ? box.left : box.right, (box.top + box.bottom) / 2];
        }""", side)  # fmt: skip
        to = find_middle(page, words)
        end = (to[0] + x - edges[0], to[1] + y - edges[1])
        if scale == "mouse":
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(*end, steps=5)
            page.mouse.up()
            return
        client = page.context.new_cdp_session(page)
        for kind, points in (("touchStart", [(x, y)]), ("touchMove", [end]), ("touchEnd", [])):
            places = [{"x": left, "y": top} for left, top in points]
            client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    drag("end", "Fieber, überraschend")
    expect_message(page, "Now “Fieber, überraschend”.")
    page.locator(".handle.start").wait_for()
    drag("start", "Mäßig h")
    expect_message(page, "Now “hohes Fieber, überraschend”.")
    assert list_kept(page) == [("hohes Fieber, überraschend", "F")]
    assert page.evaluate("getSelection().isCollapsed")
    for _ in range(2):
        page.click("#undo")
    expect(page.locator("#undo")).to_be_disabled()
    assert page.read() == before == []


def test_the_hierarchy_is_walked_up_and_down(open_page):
    page = open_page()
    get_mention(page, "Stage 5").click()
    chosen = page.locator("#candidates .chosen")
    chosen.get_by_text("Details").click()
    chosen.locator("dd").get_by_role("button", name="chronic kidney disease").click()
    step = chosen.locator(".step")
    expect(step).to_contain_text("chronic kidney disease")
    assert page.evaluate("document.activeElement.textContent") == "This one"
    chosen.locator("dd").get_by_role("button", name="stage 4").click()
    expect(step).to_contain_text("stage 4")
    step.get_by_text("Back").click()
    expect(step).to_contain_text("chronic kidney disease")
    children = chosen.locator("dt", has_text="children").locator("+ dd button")
    expect(children).to_have_text(["stage 4", "stage 5"])
    step.get_by_text("This one").click()
    expect_message(page, "Saved.")
    assert list_kept(page) == [("Stage 5", "CKD")]
    expect(chosen).to_contain_text("chronic kidney disease")
    # And back.
    chosen.get_by_text("Details").click()
    chosen.locator("dd").get_by_role("button", name="stage 5").click()
    step.get_by_text("This one").click()
    expect(chosen).to_contain_text("stage 5")
    assert list_kept(page) == [("Stage 5", "S5")]


def search(page, words):
    page.fill("#query", words)
    page.press("#query", "Enter")


def hold_search(page, words):
    """Choose a mention, search, and hold the answer back."""
    get_mention(page, "insomnia").click()
    late = LateAnswer(page, "**/link", '"mentions"')
    search(page, words)
    late.wait()
    return late


def expect_candidate(page, name):
    expect(page.locator("#candidates strong").first).to_have_text(name)


def test_a_late_answer_does_not_replace_what_was_searched_after_it(open_page):
    page = open_page()
    late = hold_search(page, "cough")
    search(page, "fever")
    expect_candidate(page, "fever")
    late.come()
    expect_candidate(page, "fever")


def test_a_search_that_fails_late_is_not_said(open_page):
    page = open_page()
    late = hold_search(page, "cough")
    search(page, "fever")
    expect_candidate(page, "fever")
    late.fail()
    expect_candidate(page, "fever")
    expect_message(page, "for “fever”")


def test_the_focus_stays_with_who_writes_on(open_page):
    page = open_page()
    late = hold_search(page, "cough")
    page.keyboard.type("ing")
    late.come()
    expect_candidate(page, "cough")
    expect(page.locator("#query")).to_be_focused()
    search(page, "fever")
    expect(page.locator("#candidates button").first).to_be_focused()


def test_candidates_come_although_somebody_else_corrects_meanwhile(open_page):
    page = open_page("He has chronic stage 5 disease, and a cough.")
    get_mention(page, "stage 5").click()
    late = LateAnswer(page, "**/link", '"mentions"')
    press(page, "s")
    late.wait()
    start = page.evaluate("state.text.indexOf('cough')")
    span = {"start": start, "end": start + 5, "label": "DISORDER", "kb_id": "C"}
    page.evaluate("span => ask('gold', { text: state.text, spans: [span] })", span)
    page.evaluate("look()")
    expect_message(page, "has corrected “cough”")
    late.come()
    expect(page.locator("#candidates .candidate")).not_to_have_count(0)


def test_candidates_of_other_options_are_not_kept(open_page):
    page = open_page()
    late = hold_search(page, "cough")
    page.evaluate("byId('k').value = 1, link()")
    late.come()
    get_mention(page, "insomnia").click()
    search(page, "cough")
    expect_candidate(page, "cough")
    expect(page.locator("#candidates .candidate")).to_have_count(1)


@pytest.mark.parametrize("button", ["Back", "Less"])
def test_a_late_concept_does_not_replace_what_was_shown_after_it(open_page, button):
    page = open_page()
    get_mention(page, "Stage 5").click()
    chosen = page.locator("#candidates .chosen")
    chosen.get_by_text("Details").click()
    chosen.locator("dd").get_by_role("button", name="chronic kidney disease").click()
    expect(chosen.locator(".step")).to_contain_text("chronic kidney disease")
    late = LateAnswer(page, "**/concept/*")
    chosen.locator("dd").get_by_role("button", name="stage 4").click()
    late.wait()
    chosen.get_by_text(button).click()
    expect(chosen.locator(".step")).to_have_count(0)
    late.come()
    expect(chosen.locator(".step")).to_have_count(0)
