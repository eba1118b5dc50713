"""A copy of the checkout in which the commands of the papers' tables run within seconds: tiny encoders with random
weights in place of the published ones, made-up releases and corpora of the same form, and runs of two steps."""

import gzip
import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from conftest import make_encoder_folder
from corpus_originals import COMETA_HEADER, SNOMED_DATE, concept, description, snomed_table
from rrf_files import atom, rrf_line, write_release
from thinc.api import Config

from training.corpora.vocabularies import CONCEPTS, DESCRIPTIONS, FULLY_SPECIFIED, SYNONYM

ROOT = Path(__file__).parents[2]
WORDS = (
    "acute chronic severe mild left upper heart liver kidney lung skin bone pain failure lesion rash fever cyst".split()
)
LANGUAGES = {"ENG": "", "GER": "deutsch", "FRE": "francais", "SPA": "espanol", "DUT": "nederlands"}
# Those of the six semantic types of MCSM, and two others.
TYPES = "T047 T121 T191 T033 T037 T184 T060 T061".split()
SOURCES = "SNOMEDCT_US MSH MDR ICD9CM ICD10CM".split()
N_CONCEPTS = 900
# The first is that of a table of CODER.
CUIS = ["C0004604", *(f"C{number:07d}" for number in range(1_000_000, 1_000_000 + N_CONCEPTS - 1))]
SNOMED_IDS = [str(number) for number in range(1_000_001, 1_000_001 + N_CONCEPTS)]
# The day of the release that published figures search, as SNOMED_DATE is.
CTD_DATE = "Mon Nov 04 10:00:00 EST 2019"
# Of AskAPatient, in place of ten.
FOLDS = range(2)
# Names on the hub that configs have outside of training/encoders/bases.cfg.
OTHER_HUB_NAMES = {
    "google-bert/bert-base-multilingual-cased": "mbert",
    "bert-base-cased": "bert",
    "cambridgeltl/SapBERT-from-PubMedBERT-fulltext": "pubmedbert",
    "GanjinZero/coder_eng": "pubmedbert",
    "GanjinZero/coder_all": "mbert",
}


def copy_checkout(folder: Path) -> Path:
    """Copy the files that git tracks, without weights, and make all runs short."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if not name.startswith(("tests/", "docs/")) and not name.endswith(".safetensors") and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    replace_encoders(folder)
    shorten_runs(folder)
    path = folder / "training" / "corpora" / "corpora.cfg"
    ten, fewer = "folds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", f"folds = {list(FOLDS)}"
    assert ten in path.read_text()
    path.write_text(path.read_text().replace(ten, fewer))
    return folder


def replace_encoders(checkout: Path) -> None:
    """Put a tiny encoder in the place of each base, whose shape is what it has, and of the open encoder."""
    path = checkout / "training" / "encoders" / "bases.cfg"
    bases, hub_names = Config().from_disk(path), dict(OTHER_HUB_NAMES)
    for seed, (name, base) in enumerate(bases.items()):
        folder = make_encoder_folder(checkout / "stand_ins" / name, seed=seed)
        sizes = json.loads((folder / "config.json").read_text())
        hub_names[base["name"]] = name
        # That of no name is a folder of its own.
        own = str(folder) if base["name"] or base["package"] else None
        shape = [sizes["vocab_size"], sizes["num_hidden_layers"], sizes["hidden_size"]]
        base |= {"name": own, "package": None, "shape": shape}
    bases.to_disk(path)
    for path in (*checkout.glob("training/configs/*.cfg"), *checkout.glob("projects/*/configs/*.cfg")):
        lines = path.read_text()
        for hub_name, name in hub_names.items():
            lines = lines.replace(f'= "{hub_name}"', f'= "{checkout / "stand_ins" / name}"')
        path.write_text(lines)
    shutil.copytree(checkout / "stand_ins" / "umlsbert", checkout / "projects" / "sapbert" / "umlsbert")
    # A folder, because it is not on the hub.
    shutil.copytree(checkout / "stand_ins" / "clinicalbert", checkout / "projects/coder/assets/clinicalbert_huang")
    # Named on the command line.
    shutil.copytree(checkout / "stand_ins" / "pubmedbert", checkout / "GanjinZero" / "coder_eng")
    shutil.rmtree(checkout / "projects" / "open_encoder" / "model")
    make_encoder_folder(checkout / "projects" / "open_encoder" / "model", seed=99)


def shorten_runs(checkout: Path) -> None:
    """Train for two steps, and a few more where runs of a sweep differ by their steps."""
    for path in checkout.glob("training/configs/*.cfg"):
        config = Config().from_disk(path, interpolate=False)
        method = config["run"]["method"]
        batch = config.setdefault("batch", {})
        # BioSyn counts epochs, CODER steps; configs state what differs from the defaults.
        if method != "biosyn":
            batch |= {"max_steps": 2, "max_minutes": 0.0}
            config.setdefault("optimizer", {})["warmup_steps"] = 0
        if not method.startswith("coder"):
            batch["epochs"] = 1
        config.to_disk(path, interpolate=False)
    for path in checkout.glob("training/sweeps/*.cfg"):
        text = path.read_text()
        steps = sorted({int(n) for n in re.findall(r'"batch.max_steps": (\d+)', text)})
        for fewer, n in enumerate(steps, 2):
            text = re.sub(rf'"batch.max_steps": {n}\b', f'"batch.max_steps": {fewer}', text)
        path.write_text(text)


def list_names() -> list[list[str]]:
    """List five English names of each concept."""
    generator = random.Random(0)
    return [
        [f"{' '.join(generator.sample(WORDS, 2 + n % 2))} {number}" for n in range(5)] for number in range(N_CONCEPTS)
    ]


def write_licensed(folder: Path, vectors: Iterable[str | None]) -> None:
    """Write what is licensed or too big to fetch: releases of UMLS and SNOMED CT, CTD, COMETA and vectors. Paths
    of vectors are seen from the project benchmarks."""
    for version in ("2020AA", "2017AA"):
        write_metathesaurus(folder / version / "META", version)
    write_snomed(folder / "SNOMEDCT")
    write_ctd(folder / "CTD", CUIS)
    write_cometa(folder / "COMETA" / "splits" / "stratified_general")
    write_concept_vectors(folder / "cui2vec.csv", CUIS)
    for path in ("../../GoogleNews-vectors-negative300.bin", *filter(None, vectors)):
        write_vectors(folder / "projects" / "benchmarks" / path)


def write_metathesaurus(folder: Path, version: str) -> None:
    """Write a release like that of UMLS: names in five languages and of five sources, types and relations."""
    generator = random.Random(1)
    atoms, types, relations = [], [], []
    for cui, names in zip(CUIS, list_names(), strict=True):
        types.append(rrf_line("MRSTY", CUI=cui, TUI=(tui := generator.choice(TYPES)), STY=f"Type {tui}"))
        for language, word in LANGUAGES.items():
            for source, name in zip(generator.sample(SOURCES, 5), names, strict=True):
                source = source if cui != "C0004604" else "ICD9CM"
                number = len(atoms)
                ids = {"AUI": f"A{number}", "SUI": f"S{number}", "LUI": f"L{number}", "CODE": f"{source}{number}"}
                atoms.append(atom(cui, f"{word} {name}".strip(), LAT=language, SAB=source, **ids))
    for tail, head in zip(CUIS[:300], generator.sample(CUIS, 300), strict=True):
        label = generator.choice(["may_treat", "finding_site_of", "causes"])
        relations.append(rrf_line("MRREL", CUI1=tail, REL="RO", RELA=label, CUI2=head))
    sources = [rrf_line("MRSAB", RSAB=source, VSAB=f"{source}_2020", SON=source, SRL="0") for source in SOURCES]
    release = rrf_line("MRDOC", DOCKEY="RELEASE", VALUE="umls.release.name", TYPE="release_info", EXPL=version)
    write_release(folder, MRCONSO=atoms, MRSTY=types, MRREL=relations, MRSAB=sources, MRDOC=[release])


def write_ontologies(folder: Path) -> None:
    """Write two ontologies of the project `open_terminology`."""
    folder.mkdir(parents=True, exist_ok=True)
    names, generator = list_names(), random.Random(2)
    for prefix, half in (("MONDO", names[: N_CONCEPTS // 2]), ("HP", names[N_CONCEPTS // 2 :])):
        lines = ["format-version: 1.2", f"ontology: {prefix.lower()}", ""]
        for number, (first, *others) in enumerate(half, 1):
            lines += ["[Term]", f"id: {prefix}:{number:07d}", f"name: {first}"]
            lines += [f'synonym: "{other}" EXACT []' for other in others]
            lines += [f"xref: UMLS:C{int(prefix == 'HP')}{number:06d}"]
            lines += [f"is_a: {prefix}:{number // 2:07d}"] if number > 1 else []
            for label in ("part_of", "located_in") if number > 2 else ():
                lines.append(f"relationship: {label} {prefix}:{generator.randrange(1, number):07d}")
            lines += [""]
        (folder / f"{prefix.lower()}.obo").write_text("\n".join(lines))


def write_corpora(folder: Path, ids: Sequence[str]) -> None:
    """Write corpora in the form of `convert all`; ids are those of the first concepts of `list_names`."""
    concepts = dict(zip(ids, list_names(), strict=False))
    for name in ("ncbi_disease", "bc5cdr_disease", "bc5cdr_chemical", "medmentions"):
        _write_corpus(folder / name, ("train", "dev", "test"), concepts)
    for name in ("cometa", "cometa_zeroshot"):
        _write_corpus(folder / name, ("train", "dev", "test"), dict(zip(SNOMED_IDS, list_names(), strict=True)))
    for name in ("ncbi_disease_biosyn", "bc5cdr_disease_biosyn"):
        _write_corpus(folder / name, ("train", "dev", "traindev", "test"), concepts)
        for part in ("train", "test"):
            shutil.copy(folder / name / "dictionary.tsv.gz", folder / name / f"dictionary_{part}.tsv.gz")
    for name, folds, parts in (
        ("askapatient", FOLDS, ("train", "validation", "test")),
        ("psytar", range(1, 6), ("train", "test")),
        ("cadec", range(1, 6), ("train", "test")),
    ):
        _write_corpus(folder / name, [f"fold{fold}.{part}" for fold in folds for part in parts], concepts)
    _write_corpus(folder / "mantra", [f"{code}_annotations" for code in ("de", "es", "fr", "nl", "en")], concepts)


def _write_corpus(folder: Path, parts: Sequence[str], concepts: dict[str, list[str]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / "dictionary.tsv.gz", "wt") as file:
        file.writelines(f"{id_}\t{name}\topen\n" for id_, names in concepts.items() for name in names[:2])
    for number, part in enumerate(parts):
        with gzip.open(folder / f"{part}.jsonl.gz", "wt") as file:
            # Each part has mentions of its own, so that none has been trained on.
            for row, (id_, names) in enumerate(list(concepts.items())[number::40]):
                document = f"{('Medline', 'EMEA', 'Patents')[row % 3]}.{row}"
                file.write(json.dumps({"mention": names[2], "ids": [id_], "doc_id": document}) + "\n")


def write_cometa(folder: Path) -> None:
    """Write the original files of a split of COMETA."""
    folder.mkdir(parents=True, exist_ok=True)
    concepts = list(zip(SNOMED_IDS, list_names(), strict=True))
    for number, part in enumerate(("train", "dev", "test")):
        rows = [
            f"{row}\t{names[2]}\t{names[0]}\t{id_}\t{names[0]}\t{id_}\tI have {names[2]}.\n"
            for row, (id_, names) in enumerate(concepts[number::40])
        ]
        (folder / f"{part}.csv").write_text(COMETA_HEADER + "".join(rows))


def write_snomed(folder: Path) -> None:
    """Write a snapshot of SNOMED CT in RF2: two names of each concept."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptions = [
        description(f"{number}{place}", id_, names[place], kind=kind)
        for number, (id_, names) in enumerate(zip(SNOMED_IDS, list_names(), strict=True))
        for place, kind in enumerate((FULLY_SPECIFIED, SYNONYM))
    ]
    tables = {CONCEPTS: list(map(concept, SNOMED_IDS)), f"{DESCRIPTIONS}-en": descriptions}
    for name, rows in tables.items():
        table = snomed_table(name.removesuffix("-en"), rows)
        (folder / f"{name}_INT_{SNOMED_DATE}.txt").write_text(table, newline="")


def write_ctd(folder: Path, ids: Sequence[str]) -> None:
    """Write CTD's chemicals; ids as for `write_corpora`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# Report created: {CTD_DATE}", "# ChemicalName\tChemicalID\tSynonyms"]
    lines += [f"{names[0]}\t{id_}\t{names[1]}" for id_, names in zip(ids, list_names(), strict=False)]
    (folder / "CTD_chemicals.tsv").write_text("\n".join(lines) + "\n")


def write_vectors(path: Path) -> None:
    """Write vectors of words in the binary form of word2vec."""
    generator = np.random.default_rng(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(f"{len(WORDS)} 8\n".encode())
        for word in WORDS:
            file.write(f"{word} ".encode() + generator.normal(size=8).astype("<f4").tobytes() + b"\n")


def write_concept_vectors(path: Path, ids: Iterable[str]) -> None:
    """Write vectors of concepts (CSV), in the form of cui2vec."""
    generator = np.random.default_rng(0)
    rows = [",".join([id_, *(f"{x:.4f}" for x in generator.normal(size=8))]) for id_ in ids]
    path.write_text("\n".join(["," + ",".join(f"V{n}" for n in range(8)), *rows]) + "\n")
