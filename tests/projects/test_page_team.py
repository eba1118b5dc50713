"""The page of the project `service` for a team: tokens, own corrections, and reviewers who settle disagreements."""

import csv
import json
from contextlib import ExitStack

import pytest
from page_server import (
    FIND_FAINT,
    LateAnswer,
    launch_browser,
    needs_chromium,
    open_context,
    playwright,
    run_service,
    settle,
)
from project_scripts import import_scripts

with import_scripts("service"):
    import limits
    import members
    import serve as service

expect = playwright.expect
pytestmark = needs_chromium
TEXT = "😀 A heart attack, then insomnia.\n\nNo cold, but she sleeps badly."
PEOPLE = {"Anna": "annotator", "Ben": "annotator", "Carla": "reviewer"}


@pytest.fixture(scope="module")
def nlp(make_nlp):
    return make_nlp()


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as browser:
        yield browser


@pytest.fixture
def team(nlp, browser, tmp_path):
    """Return a function that opens the page of a service of three people, for one of them or for nobody."""
    people = members.Members(tmp_path)
    tokens = {name: people.add(name, role) for name, role in PEOPLE.items()}
    with ExitStack() as stack:
        app = service.make_app(nlp, limits.ServiceSettings(folder=str(tmp_path)))
        host = stack.enter_context(run_service(app))

        def open_page(name=None, **options):
            part = f"token={tokens[name]}" if name else ""
            page = stack.enter_context(open_context(browser, host, part, **options))
            if name:
                show(page)
            return page

        open_page.tokens, open_page.members, open_page.folder = tokens, people, tmp_path
        yield open_page


def show(page, text=TEXT):
    expect(page.locator("#message")).to_contain_text("mention")
    page.fill("#text", text)
    page.keyboard.press("Control+Enter")
    page.wait_for_function("text => state.text === text", arg=text)


def get_mention(page, words):
    return page.locator("#linked .mention", has_text=words).first


def decide(page, words, button=".chosen .main"):
    get_mention(page, words).click()
    page.click(button)
    expect(page.locator("#message")).to_have_text("Saved.")


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_a_token_stays_in_the_tab_and_in_no_address(team):
    page = team("Anna")
    token = team.tokens["Anna"]
    assert token not in page.url and not page.url.endswith("#")
    assert not any(token in address for address in page.seen.addresses)
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert page.evaluate("({ ...sessionStorage })") == {"token": token}
    expect(page.locator("#who-name")).to_have_text("Anna, annotator")
    expect(page.locator("#team")).to_be_hidden()
    page.reload()
    expect(page.locator("#message")).to_contain_text("mention")
    expect(page.locator("#pipeline")).to_contain_text("sapbert_linker")
    page.click("#leave")
    expect(page.locator("#login")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0 and token not in page.content()


def test_without_a_token_the_page_asks_for_one_and_goes_on(team):
    page = team()
    expect(page.locator("#token")).to_be_focused()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#token-hint")).to_contain_text("does not count")
    page.keyboard.type(team.tokens["Ben"])
    page.keyboard.press("Enter")
    expect(page.locator("#login")).to_be_hidden()
    expect(page.locator("#pipeline")).to_contain_text("concepts")
    show(page)
    # A token that is taken away while somebody works costs no correction.
    team.members.remove("Ben")
    get_mention(page, "insomnia").click()
    page.click("#nil")
    expect(page.locator("#token")).to_be_focused()
    assert not (team.folder / "corrections" / "Ben.jsonl").exists()
    # It is not saved in the name of somebody else.
    page.keyboard.type(team.tokens["Anna"])
    page.keyboard.press("Enter")
    expect(page.locator("#token-hint")).to_contain_text("the token of Anna")
    page.keyboard.type(team.members.add("Ben", "annotator"))
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_have_text("Saved.")
    assert not (team.folder / "corrections" / "Anna.jsonl").exists()
    (row,) = read(team.folder / "corrections" / "Ben.jsonl")
    assert [span["annotator"] for span in row["spans"]] == ["Ben"]


def test_annotators_decide_alone_and_a_reviewer_settles(team, browser):
    anna, ben, carla = (team(name) for name in PEOPLE)
    decide(anna, "heart attack")
    decide(ben, "heart attack", "#nil")
    decide(anna, "insomnia")
    decide(ben, "insomnia")
    decide(anna, "cold")
    decide(ben, "cold", "#reject")
    # Nobody sees what others have decided.
    ben.evaluate("window.dispatchEvent(new Event('focus'))")
    ben.evaluate("state.saving")
    expect(get_mention(ben, "heart attack")).to_contain_text("no concept")
    expect(get_mention(carla, "heart attack")).not_to_contain_text("✓")
    carla.click("#team summary")
    expect(carla.locator("#open-places")).to_have_text("2 places to settle")
    expect(carla.locator("#progress tr")).to_contain_text(["texts", "Anna13", "Ben13", "settled00"])
    expect(carla.locator("#agreement tr").nth(1)).to_contain_text("Anna, Ben1")
    first = carla.locator("#places li").first
    expect(first.locator(".offer")).to_contain_text(
        ["Anna: “heart attack” Myocardial", "Ben: “heart attack” no concept"]
    )
    # Without a mouse.
    first.locator(".offer button").first.focus()
    carla.keyboard.press("Enter")
    expect(carla.locator("#open-places")).to_have_text("1 place to settle")
    expect(carla.locator("#open-places")).to_be_focused()
    expect(carla.locator("#message")).to_have_text("Settled.")
    expect(get_mention(carla, "heart attack")).to_contain_text("✓ Myocardial", ignore_case=True)
    # Another decision than those that are offered.
    carla.fill("#text", "a cold")
    carla.keyboard.press("Control+Enter")
    carla.wait_for_function("() => state.text === 'a cold'")
    carla.get_by_role("button", name="Show the place").click()
    expect(carla.locator("#mention")).to_have_text("cold")
    expect(get_mention(carla, "cold")).to_be_focused()
    assert carla.input_value("#text") == TEXT
    carla.click(".candidate:not(.chosen) .actions button >> nth=0")
    expect(carla.locator("#message")).to_have_text("Saved.")
    carla.click("#team-update")
    expect(carla.locator("#open-places")).to_have_text("Nothing to settle.")
    (row,) = read(team.folder / "corrections.jsonl")
    assert [(span["kb_id"], span["annotator"]) for span in row["spans"]] == [
        ("C0027051", "Carla"),
        ("C0009443", "Carla"),
    ]
    with carla.expect_download() as download:
        carla.click("#team-csv")
    rows = [*csv.DictReader(download.value.path().read_text(encoding="utf-8-sig").splitlines())]
    assert [row["annotator"] for row in rows] == ["Anna"] * 3 + ["Ben"] * 3
    with carla.expect_download() as download:
        carla.click("#team-prodigy")
    assert {row["_annotator_id"] for row in read(download.value.path())} == {"Anna", "Ben"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width, height", [(1280, 900), (390, 844)])
def test_the_team_fits_a_phone(team, scheme, width, height, tmp_path):
    anna, ben = team("Anna"), team("Ben")
    decide(anna, "heart attack")
    decide(ben, "heart attack", "#nil")
    options = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
    carla = team("Carla", **options)
    carla.click("#team summary")
    expect(carla.locator("#places li")).to_have_count(1)
    assert carla.evaluate(FIND_FAINT) == []
    carla.locator("#team").screenshot(path=tmp_path / f"team_{scheme}_{width}.png")
    assert carla.evaluate("document.documentElement.scrollWidth") <= width
    form = team(**options)
    expect(form.locator("#login")).to_be_visible()
    assert form.evaluate(FIND_FAINT) == []
    form.screenshot(path=tmp_path / f"login_{scheme}_{width}.png")
    assert form.evaluate("document.documentElement.scrollWidth") <= width


def test_a_place_is_shown_in_its_own_text_beside_an_open_document(team):
    anna, ben, carla = map(team, PEOPLE)
    decide(anna, "cold")
    decide(ben, "cold", "#nil")
    anna.evaluate("state.saving")
    ben.evaluate("state.saving")
    carla.evaluate(
        "() => ask('documents', { name: 'other.txt', content: 'Fever and nothing else, as far as we can tell.' })"
    )
    carla.evaluate("showList().then(() => openDocument(list.first.id))")
    expect(carla.locator("#document-name")).to_have_text("other")
    carla.wait_for_function("state.text.startsWith('Fever')")
    carla.click("#team summary")
    carla.get_by_role("button", name="Show the place").click()
    expect(carla.locator("#mention")).to_have_text("cold")
    expect(carla.locator("#document-bar")).to_be_hidden()
    assert carla.evaluate("state.text") == TEXT


def disagree(team):
    """Let two annotators disagree in two places, and return the page of the reviewer, who sees them."""
    anna, ben, carla = map(team, PEOPLE)
    for words in ("cold", "insomnia"):
        decide(anna, words)
        decide(ben, words, "#nil")
    carla.click("#team summary")
    expect(carla.locator("#open-places")).to_have_text("2 places to settle")
    return carla


def test_a_place_that_is_settled_does_not_come_back(team):
    page = disagree(team)
    late = LateAnswer(page, "**/agreement?*")
    page.click("#team-update")
    late.wait()
    page.locator("#places .offer button").first.click()
    expect(page.locator("#open-places")).to_have_text("1 place to settle")
    late.come()
    expect(page.locator("#open-places")).to_have_text("1 place to settle")


def test_what_is_corrected_while_a_place_is_settled_stays(team):
    page = disagree(team)
    late = LateAnswer(page, "**/gold/find")
    page.locator("#places .offer button").first.click()
    late.wait()
    page.evaluate("state.isLooking = true")  # another look would put it right later
    get_mention(page, "heart attack").click()
    page.click(".chosen .main")
    settle(page)
    late.come()
    expect(page.locator("#open-places")).to_have_text("1 place to settle")
    expect(get_mention(page, "heart attack")).to_contain_text("✓")


def test_a_place_is_not_shown_in_another_text(team):
    page = disagree(team)
    show(page, "a cold")
    late = LateAnswer(page, "**/link")
    page.get_by_role("button", name="Show the place").first.click()
    late.wait()
    page.fill("#text", "It is fever.")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => state.text === 'It is fever.'")
    late.come()
    expect(page.locator("#choice")).to_be_hidden()
    assert page.evaluate("[state.text, state.draft]") == ["It is fever.", None]


def test_a_document_that_is_opened_before_a_place_is_shown_stays(team):
    page = disagree(team)
    contents = {"one": TEXT, "two": "Fever and nothing else."}
    for name, content in contents.items():
        page.evaluate("([name, content]) => ask('documents', { name: `${name}.txt`, content })", [name, content])
    page.evaluate("showList()")
    page.click("#team-update")
    expect(page.locator("#document-list button")).to_have_count(2)
    settle(page)
    late = LateAnswer(page, "**/documents/*")
    page.get_by_role("button", name="Show the place").first.click()
    late.wait()
    page.click("#document-list button >> nth=1")
    expect(page.locator("#document-name")).to_have_text("two")
    page.wait_for_function("text => state.text === text", arg=contents["two"])
    late.come()
    expect(page).to_have_title("two")
