"""Distributions of the synthetic metathesaurus: counts published for UMLS 2020AA, and similar mixtures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Published for 2020AA, by those who trained on it: 4.28 million concepts and 15.48 million rows; 10.28 million English
# rows with 8.74 million distinct lower-cased names. The shares below give these means; all other figures are choices.
WITHOUT_ENGLISH = 0.012
# English names of a concept: a rounded lognormal with a mean of 2.06, more than half of them 1.
NAMES_MU, NAMES_SIGMA = -0.194, 1.1
# A few concepts have thousands of names.
HUGE_SHARE, HUGE_LEAST, HUGE_MOST = 5e-6, 1000, 3000
# Rows of the same name, from several sources or in several spellings: geometric with a mean of 1.176.
ONE_ROW_SHARE = 0.85
# Of the further rows of a name in an open metathesaurus, 37 % are spelled the same, and the rest differ in case.
SAME_SPELLING_SHARE = 0.37
FOREIGN_SHARE, FOREIGN_MEAN = 0.125, 9.72
# Names that another concept has as well.
HOMONYM_SHARE = 0.035
SECOND_TYPE_SHARE = 0.08
# Concepts that are a tradename, and so about twice as many that get names from MRREL; 133,027 did in 2020AA.
BRAND_SHARE = 0.016

SUPPRESS = {"N": 0.82, "O": 0.14, "Y": 0.035, "E": 0.005}
# Sources and term types of English rows, the largest sources first.
ENGLISH_KINDS = {
    ("NCBI", "SCN"): 15, ("NCBI", "SY"): 4, ("SNOMEDCT_US", "PT"): 8, ("SNOMEDCT_US", "FN"): 8,
    ("SNOMEDCT_US", "SY"): 6, ("MEDCIN", "PT"): 6, ("MEDCIN", "SY"): 4, ("MSH", "NM"): 4, ("MSH", "PEP"): 3,
    ("MSH", "ET"): 5, ("RXNORM", "SCD"): 2, ("RXNORM", "SY"): 3, ("RXNORM", "BN"): 1, ("LNC", "LN"): 3,
    ("LNC", "OSN"): 2, ("MTHSPL", "DP"): 3, ("MTHSPL", "SU"): 1, ("NCI", "PT"): 2, ("NCI", "SY"): 4,
    ("ICD10PCS", "PT"): 2, ("GO", "PT"): 1, ("GO", "SY"): 2, ("HGNC", "SYN"): 2, ("FMA", "PT"): 2,
    ("ICD10CM", "PT"): 1, ("OMIM", "ACR"): 1, ("VANDF", "AB"): 1, ("MTH", "PN"): 2, ("CHV", "SY"): 2,
}  # fmt: skip
# Languages with a source and a weight; a release has more of both.
FOREIGN_KINDS = {
    "SPA": ("SCTSPA", 30), "POR": ("MDRPOR", 9), "JPN": ("MDRJPN", 9), "FRE": ("MSHFRE", 9), "DUT": ("MDRDUT", 8),
    "RUS": ("MSHRUS", 8), "ITA": ("MDRITA", 7), "GER": ("MDRGER", 7), "CZE": ("MDRCZE", 6), "KOR": ("KCD5", 4),
    "CHI": ("LNC-ZH-CN", 3),
}  # fmt: skip
LANGUAGES = ("ENG", *FOREIGN_KINDS)
TYPES = {
    ("T047", "B2.2.1.2.1", "Disease or Syndrome"): 4, ("T204", "A1.1.3", "Eukaryote"): 30,
    ("T007", "A1.1.2", "Bacterium"): 12, ("T109", "A1.4.1.2.1", "Organic Chemical"): 10,
    ("T121", "A1.4.1.1.1", "Pharmacologic Substance"): 8, ("T200", "A1.3.3", "Clinical Drug"): 6,
    ("T033", "A2.2", "Finding"): 10, ("T061", "B1.3.1.3", "Therapeutic or Preventive Procedure"): 8,
    ("T023", "A1.2.3.1", "Body Part, Organ, or Organ Component"): 4, ("T028", "A1.2.3.5", "Gene or Genome"): 6,
    ("T191", "B2.2.1.2.1.2", "Neoplastic Process"): 2,
}  # fmt: skip


@dataclass(frozen=True)
class NameKeys:
    """Which names some concepts have; a name is made of the three numbers alone.

    owner (ndarray): The number of the concept that has the name.
    concept (ndarray): The number of the concept that the name is made from: another one for homonyms.
    variant (ndarray): Which of that concept's names it is.
    language (ndarray): Which of `LANGUAGES` it is in.
    rows (ndarray): How many rows of MRCONSO it has.
    """

    owner: np.ndarray
    concept: np.ndarray
    variant: np.ndarray
    language: np.ndarray
    rows: np.ndarray


def draw_names(first: int, n_concepts: int, rng: np.random.Generator) -> NameKeys:
    """Draw the names of concepts.

    first (int): The number of the first concept.
    n_concepts (int): Concepts wanted.
    rng (Generator): Makes the choices.
    RETURNS (NameKeys): The names, sorted by owner, then language.
    """
    english, foreign = _draw_counts(n_concepts, rng)
    counts = np.stack([english, foreign], axis=1).ravel()
    owner = np.repeat(np.arange(first, first + n_concepts), english + foreign)
    # The n-th name of its concept in its kind: positions minus where each run starts.
    variant = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_foreign = np.repeat(np.tile([False, True], n_concepts), counts)
    weights = np.array([weight for _, weight in FOREIGN_KINDS.values()], dtype=float)
    languages = 1 + rng.choice(len(weights), size=int(foreign.sum()), p=weights / weights.sum())
    language = np.zeros(len(owner), dtype=np.int64)
    language[is_foreign] = languages
    rows = np.where(is_foreign, 1, rng.geometric(ONE_ROW_SHARE, size=len(owner)))
    # A homonym is the first name of any concept before: the earlier, the more concepts share it.
    is_homonym = ~is_foreign & (owner > 0) & (rng.random(len(owner)) < HOMONYM_SHARE)
    other = rng.integers(0, np.maximum(owner, 1))
    concept, variant = np.where(is_homonym, other, owner), np.where(is_homonym, 0, variant)
    order = np.lexsort((language, owner))
    return NameKeys(owner[order], concept[order], variant[order], language[order], rows[order])


def _draw_counts(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    english = np.ceil(rng.lognormal(NAMES_MU, NAMES_SIGMA, size=n)).astype(np.int64)
    is_huge = rng.random(n) < HUGE_SHARE
    english = np.where(is_huge, rng.integers(HUGE_LEAST, HUGE_MOST, size=n), np.minimum(english, HUGE_LEAST))
    has_no_english = rng.random(n) < WITHOUT_ENGLISH
    has_foreign = has_no_english | (rng.random(n) < FOREIGN_SHARE - WITHOUT_ENGLISH)
    foreign = np.where(has_foreign, rng.geometric(1 / FOREIGN_MEAN, size=n), 0)
    return np.where(has_no_english, 0, english), foreign
