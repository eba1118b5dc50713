"""Strings of the synthetic metathesaurus: each is made of three numbers alone, and no two of English are equal."""

from __future__ import annotations

import numpy as np
import polars as pl

# 16 * 4 = 64 syllables of three letters, 4,096 words of two of them, 16.8 million pairs of words.
SYLLABLES = [f"{first}{vowel}{last}" for first in "bcdfghklmnprstvz" for vowel, last in ("an", "er", "il", "os")]
WORDS = [first + second for first in SYLLABLES for second in SYLLABLES]
N_WORDS = len(WORDS)
MOST_CONCEPTS = N_WORDS**2
# An odd factor makes numbers that lie side by side very different words, and no two numbers the same.
SCRAMBLE = 10_368_889

# Eight words a language, so that other scripts occur; English has more.
ENGLISH_FILLERS = (
    "of the with and type syndrome disease disorder structure acute chronic left right product oral tablet "
    "solution injection extract protein receptor gene antibody measurement procedure entire upper lower congenital "
    "familial neoplasm malignant benign primary secondary infection deficiency (disorder) (finding) (procedure) [dup] "
    "nos, unspecified hydrochloride 10 mg/ml 2 ii alpha β-globulin sjögren's ménière's non-specific subsp. sp. strain "
    "due to in by ultrasound-guided percutaneous autosomal-recessive immunoelectrophoresis acid"
).split()
FOREIGN_FILLERS = {
    "SPA": "enfermedad de trastorno con síndrome (hallazgo) niño lesión",
    "POR": "doença de transtorno com síndrome coração lesão não",
    "JPN": "疾患 の 症候群 障害 慢性 急性 感染症 ガン",
    "FRE": "maladie de trouble avec syndrome œdème lésion hérédité",
    "DUT": "ziekte van stoornis met syndroom aandoening letsel categorieën",
    "RUS": "болезнь синдром острый хронический поражение с при опухоль",
    "ITA": "malattia di disturbo con sindrome lesione età cronica",
    "GER": "Krankheit der Störung mit Syndrom Läsion Größe chronisch",
    "CZE": "nemoc porucha s syndrom léze chronická dítě žíla",
    "KOR": "질환 의 증후군 장애 만성 급성 감염 암",
    "CHI": "疾病 的 综合征 障碍 慢性 急性 感染 癌",
}


def make_names(concept: np.ndarray, variant: np.ndarray, language: np.ndarray, seed: int) -> pl.Series:
    """Make names, in lower case but for proper words.

    Two words stand for the concept, the last one for the variant; the words between are drawn.

    concept (ndarray): The numbers of the concepts, below `MOST_CONCEPTS`.
    variant (ndarray): Which of a concept's names, below 4,096.
    language (ndarray): Which of `LANGUAGES`.
    seed (int): Seed of the words between.
    RETURNS (Series): The names.
    """
    words = pl.Series(WORDS)
    fillers = pl.Series([*ENGLISH_FILLERS, *(word for text in FOREIGN_FILLERS.values() for word in text.split())])
    stem = concept * SCRAMBLE % MOST_CONCEPTS
    bits = mix(concept * N_WORDS + variant, seed)
    columns = {
        "first": words.gather(stem // N_WORDS),
        "second": words.gather(stem % N_WORDS),
        "variant": pl.select(pl.when(pl.Series(variant > 0)).then(words.gather(variant))).to_series(),
    }
    # 0 to 4 words, 1.9 in the mean.
    n_fillers = np.array([0, 1, 1, 2, 2, 2, 3, 4])[(bits >> np.uint64(60)).astype(np.int64) % 8]
    for place in range(4):
        drawn = (bits >> np.uint64(12 * place)).astype(np.int64) & 4095
        rows = np.where(language == 0, drawn % len(ENGLISH_FILLERS), _foreign_row(drawn, language))
        word = pl.when(pl.Series(n_fillers > place)).then(fillers.gather(rows))
        columns[f"filler{place}"] = pl.select(word).to_series()
    order = ["first", "filler0", "filler1", "second", "filler2", "filler3", "variant"]
    return pl.DataFrame(columns).select(pl.concat_str(order, separator=" ", ignore_nulls=True)).to_series()


def spell(names: pl.Series, spelling: np.ndarray) -> pl.Series:
    """Write names in lower case, with a capital, or in upper case.

    names (Series): The names.
    spelling (ndarray): 0, 1 or 2 for each.
    RETURNS (Series): The names as spelled.
    """
    how = pl.col("how")
    capital = pl.concat_str(pl.col("name").str.slice(0, 1).str.to_uppercase(), pl.col("name").str.slice(1))
    upper = pl.col("name").str.to_uppercase()
    spelled = pl.when(how == 0).then("name").when(how == 1).then(capital).otherwise(upper)
    return pl.DataFrame({"name": names, "how": spelling}).select(spelled).to_series()


def mix(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Turn numbers into bits that look random, the same for the same number and seed (the finalizer of SplitMix64).

    numbers (ndarray): The numbers.
    seed (int): The seed.
    RETURNS (ndarray): One uint64 for each.
    """
    bits = numbers.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _foreign_row(drawn: np.ndarray, language: np.ndarray) -> np.ndarray:
    return len(ENGLISH_FILLERS) + np.maximum(language - 1, 0) * 8 + drawn % 8
