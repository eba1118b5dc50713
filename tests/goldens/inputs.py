"""Made-up inputs, drawn with a fixed seed: a release, a corpus of mentions, typing errors."""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rrf_files

SEED = 42
# An English word, another one, and a German one. Findings have a semantic type as well.
QUALIFIERS = [("", "", ""), ("acute", "sudden", "akut"), ("chronic", "lasting", "chronisch"), ("mild", "light", "mild")]
QUALIFIERS += [("inborn", "congenital", "angeboren"), ("severe", "grave", "schwer"), ("rare", "unusual", "selten")]
PLACES = [("heart", "cardiac", "Herz"), ("liver", "hepatic", "Leber"), ("kidney", "renal", "Nieren")]
PLACES += [("lung", "pulmonary", "Lungen"), ("skin", "cutaneous", "Haut"), ("eye", "ocular", "Augen")]
PLACES += [("stomach", "gastric", "Magen"), ("brain", "cerebral", "Hirn"), ("bone", "osseous", "Knochen")]
FINDINGS = [("inflammation", "inflammatory disease", "entzündung", "T047"), ("failure", "collapse", "versagen", "T047")]
FINDINGS += [("cancer", "malignant growth", "krebs", "T191"), ("pain", "ache", "schmerz", "T033")]
FINDINGS += [("injury", "trauma", "verletzung", "T037"), ("inhibitor", "blocker", "hemmer", "T121")]
FINDINGS += [("tablet", "pill", "tablette", "T200")]
# Restriction levels.
SOURCES = {"MSH": 0, "LOCAL": 0, "SECRET": 3}


def write_release(folder: Path) -> Path:
    """Write a release in Rich Release Format: 441 concepts with names in two languages, types and relations."""
    rng = random.Random(SEED)
    files: dict[str, list[str]] = {name: [] for name in ("MRCONSO", "MRREL", "MRSTY", "MRDEF", "MRSAB")}
    cuis: dict[tuple[str, str, str], str] = {}
    for number, (qualifier, place, finding) in enumerate(itertools.product(QUALIFIERS, PLACES, FINDINGS)):
        cui = cuis[qualifier[0], place[0], finding[0]] = f"C{number:07d}"
        for name, language, source in _name_concept(rng, qualifier, place, finding):
            n = len(files["MRCONSO"])
            row = {"LAT": language, "SAB": source, "TTY": rng.choice(["PT", "SY"]), "SRL": str(SOURCES[source])}
            row |= {"SUPPRESS": "O" if rng.random() < 0.05 else "N", "TS": "S", "AUI": f"A{n:08d}"}
            row |= {"LUI": f"L{n:07d}", "SUI": f"S{n:07d}", **dict.fromkeys(("CODE", "SDUI"), f"{source[0]}{number}")}
            files["MRCONSO"].append(rrf_files.atom(cui, name, **row))
        files["MRSTY"].append(rrf_files.rrf_line("MRSTY", CUI=cui, TUI=finding[3], STY=finding[0]))
        if rng.random() < 0.3:
            files["MRDEF"].append(rrf_files.rrf_line("MRDEF", CUI=cui, DEF=f"A {finding[0]} of the {place[0]}."))
    for words, cui in cuis.items():
        for target, relation, attribute in _relate(*words):
            if target in cuis and cuis[target] != cui and rng.random() < 0.9:
                row = {"REL": relation, "RELA": attribute, "SAB": rng.choice(["MSH", "LOCAL"])}
                files["MRREL"].append(rrf_files.rrf_line("MRREL", CUI1=cuis[target], CUI2=cui, **row))
    for source, level in SOURCES.items():
        row = {"VSAB": f"{source}_1", "RSAB": source, "SON": source, "SRL": str(level), "LAT": "ENG"}
        files["MRSAB"].append(rrf_files.rrf_line("MRSAB", **row, CURVER="Y", SABIN="Y"))
    return rrf_files.write_release(folder, **files)


def _name_concept(
    rng: random.Random, qualifier: tuple[str, ...], place: tuple[str, ...], finding: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    """Yield name, language and source of each atom of a concept."""
    names = [f"{qualifier[0]} {place[0]} {finding[0]}", f"{place[1]} {finding[0]}, {qualifier[1]}"]
    names += [f"{finding[1]} of {place[0]} {qualifier[0]}", f"{qualifier[1]} {place[1]} {finding[1]}"]
    names += [f"{place[0]} {finding[1]}"] if rng.random() < 0.2 else []  # shared with other concepts
    names = [" ".join(name.strip(" ,").split()).capitalize() for name in names]
    for name in names[: rng.randint(1, len(names))]:
        yield name, "ENG", rng.choice(["MSH", "MSH", "MSH", "MSH", "LOCAL", "SECRET"])
    if rng.random() < 0.6:
        yield f"{qualifier[2]} {place[2]}{finding[2]}".strip(), "GER", "MSH"


def _relate(qualifier: str, place: str, finding: str) -> Iterator[tuple[tuple[str, str, str], str, str]]:
    """Yield the related concepts of one, with REL and RELA."""
    yield ("", place, finding), "PAR", "inverse_isa"
    yield ("", place, finding), "RO", "associated_with"
    treated = {"inhibitor": "inflammation", "tablet": "pain"}
    if finding in treated:
        yield (qualifier, place, treated[finding]), "RO", "may_treat"
    causes = {"failure": "injury", "pain": "cancer", "cancer": "inflammation"}
    if finding in causes:
        yield (qualifier, place, causes[finding]), "RO", "due_to"
    yield (qualifier, {"heart": "lung", "liver": "stomach"}.get(place, "brain"), finding), "RN", ""


def write_mentions(folder: Path, terminology: Any) -> Path:
    """Write misspelt names (train.jsonl, test.jsonl), dictionary.tsv, translations.txt and rated pairs.csv."""
    folder.mkdir()
    rng = random.Random(SEED)
    ids = terminology.concepts["id"].to_list()
    rows = sorted((ids[concept], name) for concept, name in terminology.names.select("concept", "name").rows())
    drawn = rng.sample(rows, 180)
    dictionary = "".join(f"{concept}\t{name}\n" for concept, name in rows if rng.random() < 0.8)
    (folder / "dictionary.tsv").write_text(dictionary, encoding="utf8")
    misspelt = misspell([name for _, name in drawn], random.Random(SEED))
    mentions: list[dict[str, Any]] = [
        {"mention": text, "ids": [concept]} for (concept, _), text in zip(drawn, misspelt, strict=True)
    ]
    for first, second in zip(drawn[:10], drawn[10:20], strict=True):
        mentions.append({"mention": f"{first[1]} and {second[1]}", "ids": [first[0], second[0]], "composite": True})
    mentions += [{"mention": "wholly unknown thing", "ids": ["D000000"]}, *mentions[:5]]
    rng.shuffle(mentions)
    for name, part in (("train", mentions[:96]), ("test", mentions[80:])):
        lines = "".join(json.dumps({**line, "doc_id": str(i)}) + "\n" for i, line in enumerate(part))
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf8")
    words = [(word, german) for word, _, german, *_ in (*PLACES, *FINDINGS, *QUALIFIERS[1:])]
    lines = "".join(f"{word} {german}\n" for word, german in [*words, *words[:3], ("heart", "herzlich")])
    (folder / "translations.txt").write_text(lines, encoding="utf8")
    pairs = [(*rng.sample(rows, 2), i % 7 + rng.random()) for i in range(30)]
    lines = "".join(f"{rating:.3f},{a[1]},{b[1]},{a[0]},{b[0]}\n" for a, b, rating in pairs if "," not in a[1] + b[1])
    (folder / "pairs.csv").write_text(f"Mean,TERM1,TERM2,CUI1,CUI2\n{lines}", encoding="utf8")
    return folder


def draw_misspelt(names: list[str], n: int) -> list[str]:
    """Draw `n` names and misspell most of them; sorted."""
    rng = random.Random(SEED)
    return sorted(misspell(rng.sample(names, n), rng))


def misspell(names: list[str], rng: random.Random) -> list[str]:
    """Drop or insert a letter, or lower the case, in most names."""
    made = []
    for name in names:
        place = rng.randrange(len(name))
        letter = rng.choice("abcdefghijklmnopqrstuvwxyz")
        kinds = [name, name[:place] + name[place + 1 :], name[:place] + letter + name[place:], name.lower()]
        made.append(rng.choice(kinds) or name)
    return made
