"""A synthetic metathesaurus of any size in RRF, to measure with: its names resemble real ones, and mean nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from inputs import OUTPUT, find_names, read_names

from spacy_sapbert.terminology.readers.rrf_lines import COLUMNS

# Concepts made at once, and the first code.
BLOCK = 50_000
FIRST_CODE = 10**7
# Published for 2020AA by authors who trained on it: 4.28 million concepts and 15.48 million rows; 10.28 million English
# rows with 8.74 million distinct lower-cased names. The shares below give these means; all other figures are choices.
ROWS_A_CONCEPT = 15.48 / 4.28
# English names of a concept: a rounded lognormal with a mean of 2.06, more than half of them 1.
NAMES_MU = -0.194
NAMES_SIGMA = 1.1
MOST_NAMES = 4000
# Rows of the same name: geometric with a mean of 1.176; 37 % of the further ones are spelled the same.
ONE_ROW_SHARE = 0.85
SAME_SPELLING_SHARE = 0.37
WITHOUT_ENGLISH = 0.012
FOREIGN_SHARE = 0.125
FOREIGN_MEAN = 9.72
SECOND_TYPE_SHARE = 0.08
BRAND_SHARE = 0.016
PARENT_SHARE = 0.16
SOURCES = ["NCBI", "SNOMEDCT_US", "MEDCIN", "MSH", "RXNORM", "LNC", "NCI", "GO", "OMIM", "MTH"]
TERM_TYPES = ["PT", "SY", "ET", "SCN", "FN"]
# Languages with words, so that other scripts occur.
FOREIGN = {
    "SPA": "síndrome", "POR": "doença", "JPN": "疾患", "FRE": "lésion", "DUT": "aandoening", "RUS": "болезнь",
    "ITA": "malattia", "GER": "Störung", "CZE": "léze", "KOR": "질환", "CHI": "综合征",
}  # fmt: skip
TYPES = [
    ("T047", "B2.2.1.2.1", "Disease or Syndrome"), ("T204", "A1.1.3", "Eukaryote"), ("T007", "A1.1.2", "Bacterium"),
    ("T109", "A1.4.1.2.1", "Organic Chemical"), ("T033", "A2.2", "Finding"), ("T200", "A1.3.3", "Clinical Drug"),
    ("T028", "A1.2.3.5", "Gene or Genome"), ("T191", "B2.2.1.2.1.2", "Neoplastic Process"),
]  # fmt: skip
# A word gives way to one that follows the same word elsewhere, or becomes a new one: the beginning of one word and the
# end of another. Names of one word would otherwise soon be used up.
EXCHANGED = 0.5
NEW_WORD = 0.12
NEW_SINGLE_WORD = 0.8
LONGEST = 24


class Patterns(NamedTuple):
    """Words of real names, from which others are made."""

    words: pl.Series
    # The words of all names, one name after the other; where each name starts in them, and how many it has.
    flat: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    # Places in `flat`, sorted by the word that stands there, and where the places of each word start.
    by_word: np.ndarray
    first_place: np.ndarray

    @classmethod
    def split(cls, names: pl.Series) -> Patterns:
        """Split real names into words; repeated names count once."""
        clean = names.cast(pl.String).str.replace_all(r"\s+", " ").str.strip_chars()
        split = clean.filter(clean != "").unique(maintain_order=True).str.split(" ").list.head(LONGEST)
        lengths = split.list.len().to_numpy().astype(np.int64)
        flat = split.explode()
        words = flat.unique().sort()
        codes = flat.cast(pl.Enum(words)).to_physical().to_numpy().astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        by_word = np.argsort(codes, kind="stable")
        first_place = np.searchsorted(codes[by_word], np.arange(len(words) + 1))
        return cls(words, codes, starts, lengths, by_word, first_place)

    def make(self, concept: np.ndarray, rng: np.random.Generator) -> pl.Series:
        """Make names of concepts, given by the number of each. All names of a concept follow one real name."""
        n = len(concept)
        pattern = rng.integers(len(self.lengths), size=concept.max(initial=0) + 1)[concept]
        lengths = self.lengths[pattern]
        starts = self.starts[pattern]
        before = np.full(n, -1, dtype=np.int64)
        share_new = np.where(lengths == 1, NEW_SINGLE_WORD, NEW_WORD)
        columns = []
        for place in range(int(lengths.max(initial=0))):
            is_there = lengths > place
            own = self.flat[np.where(is_there, starts + place, 0)]
            is_exchanged = rng.random(n) < EXCHANGED
            word = np.where(is_exchanged, self._follow(before, own, rng), own)
            is_new = rng.random(n) < share_new
            other = self.flat[rng.integers(len(self.flat), size=n)]
            columns.append(self._write_words(word, other, is_new, is_there).alias(str(place)))
            before = word
        whole = pl.concat_str(pl.all(), separator=" ", ignore_nulls=True)
        return pl.DataFrame(columns).select(whole).to_series()

    def _write_words(self, word: np.ndarray, other: np.ndarray, is_new: np.ndarray, is_there: np.ndarray) -> pl.Series:
        """Write the words of names, where they have one; a new one begins as the word and ends as the other."""
        words = {"word": self.words.gather(word), "other": self.words.gather(other)}
        table = pl.DataFrame({**words, "is_new": is_new, "is_there": is_there})
        first = pl.col("word").str
        second = pl.col("other").str
        head = first.head((first.len_chars() + 1) // 2)
        tail = second.tail((second.len_chars() + 1) // 2)
        text = pl.when("is_new").then(head + tail).otherwise("word")
        return table.select(pl.when("is_there").then(text)).to_series()

    def _follow(self, before: np.ndarray, own: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a word that follows the word before in some real name, or starts one; its own word at a name's end."""
        share = rng.random(len(own))
        word = np.maximum(before, 0)
        first = self.first_place[word]
        span = self.first_place[word + 1] - first
        place = self.by_word[first + (share * span).astype(np.int64)]
        behind = np.minimum(place, len(self.flat) - 2) + 1
        is_start = np.zeros(len(self.flat), dtype=bool)
        is_start[self.starts] = True
        names = (share * len(self.starts)).astype(np.int64)
        starting = self.flat[self.starts[names]]
        following = np.where(is_start[behind], own, self.flat[behind])
        return np.where(before < 0, starting, following)


def write_number(numbers: Any, prefix: str, digits: int = 7) -> pl.Series:
    """Write numbers with a prefix, filled up with zeros."""
    written = pl.Series("number", numbers).cast(pl.String).str.zfill(digits)
    return pl.select(pl.lit(prefix) + written).to_series()


def make_each(sizes: Sequence[int], names_like: str, seed: int) -> Iterator[tuple[int, Path, int]]:
    """Make a metathesaurus of each size in turn, in the folder `rrf` of a folder for the work with it, and give size,
    folder and its number of rows. The folder is taken away afterwards, because the largest are gigabytes. With the size
    0, the folder is empty."""
    patterns = Patterns.split(read_names(find_names(names_like)).names.to_polars("name")["name"])
    OUTPUT.mkdir(exist_ok=True)
    for size in sizes:
        with TemporaryDirectory(dir=OUTPUT.resolve()) as folder:
            n_rows = make_rrf(Path(folder, "rrf"), size, seed, patterns)["MRCONSO.RRF"] if size else 0
            yield size, Path(folder), n_rows


def make_rrf(folder: Path, n_rows: int, seed: int, patterns: Patterns) -> dict[str, int]:
    """Write MRCONSO, with about as many rows as wanted, MRREL, MRSTY and MRSAB into a new folder; count their rows."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    n_concepts = max(1, round(n_rows / ROWS_A_CONCEPT))
    counts = dict.fromkeys(("MRCONSO.RRF", "MRREL.RRF", "MRSTY.RRF", "MRSAB.RRF"), 0)
    same = {"CENC": "UTF-8", "CURVER": "Y", "SABIN": "Y", "SRL": "0", "SON": "synthetic", "LAT": "ENG"}
    sources = [{**same, **dict.fromkeys(("VSAB", "RSAB", "SF", "SSN"), source)} for source in SOURCES]
    for first in range(0, n_concepts, BLOCK):
        n = min(BLOCK, n_concepts - first)
        n_before = counts["MRCONSO.RRF"]
        conso, owner = make_atoms(first, n, n_before, rng, patterns)
        first_atoms = n_before + np.searchsorted(owner, np.arange(n))
        tables = {
            "MRCONSO.RRF": conso,
            "MRREL.RRF": make_relations(first, first_atoms, rng),
            "MRSTY.RRF": make_types(first, n, rng),
        }
        if first == 0:
            tables["MRSAB.RRF"] = pl.DataFrame(sources)
        for name, table in tables.items():
            # Others are empty. One more makes the `|` at the end of each line.
            columns = [*COLUMNS[name.removesuffix(".RRF")].split(), "end"]
            whole = table.select(column if column in table.columns else pl.lit("").alias(column) for column in columns)
            with (folder / name).open("ab") as file:
                whole.write_csv(file, include_header=False, separator="|", quote_style="never")
            counts[name] += table.height
    return counts


class Rows(NamedTuple):
    """Rows of a block, sorted by concept, as arrays with an entry for each."""

    concept: np.ndarray  # its number in the block
    variant: np.ndarray  # which name of its concept and kind it has
    language: np.ndarray  # 0 for English, or the number of one of `FOREIGN`

    def take(self, places: np.ndarray) -> Rows:
        """Take some rows."""
        return Rows(*(column[places] for column in self))


def draw_names(n_concepts: int, rng: np.random.Generator) -> Rows:
    """Draw how many names the concepts of a block have, and in which languages."""
    english = np.ceil(rng.lognormal(NAMES_MU, NAMES_SIGMA, size=n_concepts))
    english = np.minimum(english, MOST_NAMES // 2).astype(np.int64)
    has_no_english = rng.random(n_concepts) < WITHOUT_ENGLISH
    has_both = rng.random(n_concepts) < FOREIGN_SHARE - WITHOUT_ENGLISH
    foreign = rng.geometric(1 / FOREIGN_MEAN, size=n_concepts)
    english[has_no_english] = 0
    foreign[~(has_no_english | has_both)] = 0
    counts = np.stack([english, foreign], axis=1).ravel()
    concept = np.repeat(np.repeat(np.arange(n_concepts), 2), counts)
    # The n-th name of its concept in its kind: positions minus where each run starts.
    variant = np.arange(len(concept)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_foreign = np.repeat(np.tile([False, True], n_concepts), counts)
    language = 1 + rng.integers(0, len(FOREIGN), size=len(concept))
    language[~is_foreign] = 0
    return Rows(concept, variant, language)


def make_names(rows: Rows, rng: np.random.Generator, patterns: Patterns) -> pl.Series:
    """Make names, those of other languages with a word of theirs in front."""
    words = pl.Series([None, *FOREIGN.values()]).gather(rows.language)
    parts = words, patterns.make(rows.concept, rng)
    return pl.select(pl.concat_str(*parts, separator=" ", ignore_nulls=True)).to_series()


def spell(strings: pl.Series, spelling: np.ndarray) -> pl.Series:
    """Write strings as they are (0), with a capital (1) or in capitals (2)."""
    string = pl.col("string")
    how = pl.col("how")
    capital = pl.concat_str(string.str.slice(0, 1).str.to_uppercase(), string.str.slice(1))
    spelled = pl.when(how == 0).then(string).when(how == 1).then(capital).otherwise(string.str.to_uppercase())
    return pl.DataFrame({"string": strings, "how": spelling}).select(spelled).to_series()


def make_atoms(
    first: int, n_concepts: int, n_before: int, rng: np.random.Generator, patterns: Patterns
) -> tuple[pl.DataFrame, np.ndarray]:
    """Make the rows of MRCONSO of a block of concepts, and the number in the block of each row's concept."""
    drawn = draw_names(n_concepts, rng)
    names = make_names(drawn, rng, patterns)
    repeats = rng.geometric(ONE_ROW_SHARE, size=len(names))
    repeats[drawn.language > 0] = 1
    name = np.repeat(np.arange(len(names)), repeats)
    n = len(name)
    owner, variant, language = drawn.take(name)
    is_first = np.concatenate([[True], name[1:] != name[:-1]])
    differs = ~is_first & (rng.random(n) >= SAME_SPELLING_SHARE)
    # A name's first row decides how its other rows are spelled, where they are spelled the same.
    first_spelling = rng.choice(3, size=len(names), p=[0.4, 0.5, 0.1])
    spelling = (first_spelling[name] + differs) % 3
    code = write_number(first + owner + FIRST_CODE, "")
    number = first + owner
    lui = number * MOST_NAMES + variant + (language > 0) * (MOST_NAMES // 2)

    def choose(values: list[str], weights: list[float] | None = None) -> pl.Series:
        return pl.Series(values).gather(rng.choice(len(values), size=n, p=weights))

    columns = {
        "CUI": write_number(number + 1, "C"),
        "LAT": pl.Series(["ENG", *FOREIGN]).gather(language),
        "TS": pl.Series(["S", "P"]).gather((variant == 0).astype(np.int64)),
        "LUI": write_number(lui, "L", 8),
        "STT": pl.Series(["PF", "VC"]).gather(differs.astype(np.int64)),
        "SUI": write_number(lui * 3 + spelling, "S", 8),
        "ISPREF": pl.Series(["N", "Y"]).gather(is_first.astype(np.int64)),
        "AUI": write_number(np.arange(n_before + 1, n_before + n + 1), "A", 8),
        "SCUI": code,
        "SAB": choose(SOURCES),
        "TTY": choose(TERM_TYPES),
        "CODE": code,
        "STR": spell(names.gather(name), spelling),
        "SRL": choose(["0", "9"], [0.4, 0.6]),
        "SUPPRESS": choose(["N", "O", "Y", "E"], [0.82, 0.14, 0.035, 0.005]),
        "CVF": choose(["", "256"], [0.7, 0.3]),
    }
    return pl.DataFrame(columns), owner


def make_relations(first: int, first_atoms: np.ndarray, rng: np.random.Generator) -> pl.DataFrame:
    """Make rows of MRREL, both directions of each: a row says that concept 2 is RELA of concept 1."""
    tables = []
    for share, there, back in (
        (BRAND_SHARE, ("RO", "tradename_of"), ("RO", "has_tradename")),
        (PARENT_SHARE, ("CHD", "isa"), ("PAR", "inverse_isa")),
    ):
        # The other concept is one before in the block.
        these = np.flatnonzero(rng.random(len(first_atoms)) < share)
        these = these[these > 0]
        others = rng.integers(0, these)
        for one, two, (rel, rela) in ((others, these, there), (these, others, back)):
            pairs = pl.DataFrame({"one": one, "two": two})
            tables.append(pairs.with_columns(REL=pl.lit(rel), RELA=pl.lit(rela)))
    table = pl.concat(tables).sort("one", "two", "REL")
    one = table["one"].to_numpy()
    two = table["two"].to_numpy()
    return table.select(
        "REL",
        "RELA",
        CUI1=write_number(first + one + 1, "C"),
        AUI1=write_number(first_atoms[one] + 1, "A", 8),
        CUI2=write_number(first + two + 1, "C"),
        AUI2=write_number(first_atoms[two] + 1, "A", 8),
        RUI=write_number(np.arange(table.height) + first, "R"),
        STYPE1=pl.lit("SCUI"),
        STYPE2=pl.lit("SCUI"),
        SAB=pl.lit("RXNORM"),
        SL=pl.lit("RXNORM"),
        SUPPRESS=pl.lit("N"),
    )


def make_types(first: int, n_concepts: int, rng: np.random.Generator) -> pl.DataFrame:
    """Make rows of MRSTY: one type for each concept, two for some."""
    main = rng.integers(0, len(TYPES), size=n_concepts)
    has_second = rng.random(n_concepts) < SECOND_TYPE_SHARE
    concept = np.repeat(np.arange(n_concepts), 1 + has_second)
    is_second = np.concatenate([[False], concept[1:] == concept[:-1]])
    rows = (main[concept] + is_second) % len(TYPES)
    identifiers, places, names = np.array(TYPES)[rows].T
    columns = {
        "CUI": write_number(first + concept + 1, "C"),
        "TUI": identifiers,
        "STN": places,
        "STY": names,
        "ATUI": write_number(np.arange(len(concept)) + first * 2, "AT"),
    }
    return pl.DataFrame(columns)
