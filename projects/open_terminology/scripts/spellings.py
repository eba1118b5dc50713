"""Spell Greek and Latin names as other languages do: what "adenopathy" is in Spanish, if the open sources only say what
"lymphadenopathy" is."""

import re
from collections import defaultdict
from pathlib import Path

import typer

from spacy_sapbert.files import write_whole
from spacy_sapbert.lexicon.scan import list_words
from spacy_sapbert.terminology import read_rrf

# Names of one word with one of these endings. Others, as "borrelia" and "oncology", are often no disorders.
ENDINGS = (
    "emia penia uria algia esthesia plasia plegia rrhea rrhagia ectasia osis itis oma asis esis ysis ism tion pathy "
    "trophy megaly philia phobia pnea cardia thermia tonia kinesia phagia phasia opia opsia dynia malacia melia "
    "dactyly cephaly ity us os"
).split()
_SPELT = re.compile(f"[a-z]{{3,}}(?:{'|'.join(ENDINGS)})")
# Disorders, findings, injuries and abnormalities. Names of drugs may have such an ending, too.
DISORDERS = "T019 T033 T046 T047 T048 T049 T184 T191".split()
# For each language, its code and what is replaced, in this order.
SPELLINGS = {
    "es": (
        "SPA",
        "mph nf|rrh rr|rh r|ph f|th t|ch(?=[ei]) qu|ch c|^k(?=[ei]) qu|k c|mmon mon|cc(?=[aou]) c|ll l|mm m|pp p|ss s|"
        "tt t|ff f|nn n|tion$ ción|ity$ idad|ism$ ismo|us$ o|y$ ia|y i|^s(?=[ptcmqf]) es",
    ),
    "fr": (
        "FRE",
        "leuk leuc|ea$ ée|ity$ ité|ism$ isme|osis$ ose|itis$ ite|oma$ ome|asis$ ase|esis$ èse|ysis$ yse|ia$ ie|y$ ie",
    ),
    "it": (
        "ITA",
        "mph nf|rrh rr|rh r|ph f|th t|ch(?=[aolru]) c|k(?=[ei]) ch|k c|ction$ zione|tion$ zione|osis$ osi|itis$ ite|"
        "asis$ asi|esis$ esi|ysis$ isi|ism$ ismo|ity$ ità|y$ ia|us$ o|y i|(?<!c)h |x ss",
    ),
}
HEADER = """# Names of concepts, and how their English names are spelt in this language, from open sources:
# {sources}.
# Each source has its own licence; whoever passes this list on names them with their versions. Made by
# `python -m spacy project run spellings projects/open_terminology`.
"""


def spell(word: str, rules: str) -> str:
    """Spell an English word of Greek or Latin origin as another language does."""
    for rule in rules.split("|"):
        word = re.sub(*rule.split(" "), word)
    return word


def main(rrf: Path, output: Path) -> None:
    """Write synonyms_es.txt and others: on a line the names of a concept, and how its English names are spelt."""
    codes = [code for code, _ in SPELLINGS.values()]
    terminology = read_rrf(rrf, languages=["ENG", *codes], semantic_types=DISORDERS)
    ids = terminology.concepts["id"][terminology.name_concept]
    names = terminology.names.to_polars()
    of_language: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for id_, name, language in zip(ids, names["name"], names["language"], strict=True):
        of_language[language][id_].append(name)
    sources = terminology.report["sources"].values()
    header = HEADER.format(sources="; ".join(sorted(filter(None, (facts.get("name", "") for facts in sources)))))
    for language, (code, rules) in SPELLINGS.items():
        known = {name.lower() for of_concept in of_language[code].values() for name in of_concept}
        lines = set()
        for id_, own in of_language[code].items():
            english = ("".join(list_words(name)) for name in of_language["ENG"].get(id_, ()) if name.isalpha())
            spelt = {spell(word, rules) for word in english if _SPELT.fullmatch(word)} - known
            if spelt:
                lines.add("\t".join([*dict.fromkeys(own), *sorted(spelt)]))
        with write_whole(output / f"synonyms_{language}.txt") as file:
            file.write_text(header + "".join(f"{line}\n" for line in sorted(lines)), "utf8")
        print(f"{language}: the names of {len(lines):,} concepts: {output}")


if __name__ == "__main__":
    typer.run(main)
