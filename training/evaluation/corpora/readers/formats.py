"""The original formats of corpora: one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ....errors import Errors
from .annotated_lines import ID_KEY, read_prodigy, read_uniform
from .biosyn import read_biosyn
from .brat import read_brat
from .docbin import read_docbin
from .inputs import InputFile
from .mantra_brat import read_mantra_brat
from .mantra_xml import read_mantra_xml
from .pubtator import read_medmentions, read_pubtator
from .records import CorpusParts
from .report import ReadingReport
from .snomed import GB_ENGLISH, US_ENGLISH, read_snomed
from .tables import read_askapatient, read_cometa, read_folds, read_medmentions_rows
from .vocabulary import read_ctd, read_medic
from .xlbel import read_xlbel

Reader = Callable[[list[InputFile], ReadingReport], CorpusParts]

ANY_PUBTATOR = r"(?P<part>.+?)(?:\.pubtator)?\.(?:txt|pubtator)"
NCBI_DISEASE = r"(?:.*/)?NCBI(?P<part>train|develop|test)set_corpus\.txt"
BC5CDR = r"(?:.*/)?CDR_(?P<part>Training|Development|Test)Set\.PubTator\.txt"
GENERAL, SPECIFIC = "General SNOMED ID", "Specific SNOMED ID"
SNOMED_FILES = "sct2_Concept_Snapshot_INT_20190731.txt and sct2_Description_Snapshot-en_INT_20190731.txt"
REFSET_FILES = f"{SNOMED_FILES}, der2_cRefset_LanguageSnapshot-en_INT_20190731.txt"


@dataclass(frozen=True)
class Format:
    """A format.

    read (Callable): Reads it.
    files (str): The files that it consists of.
    """

    read: Reader
    files: str


FORMATS: dict[str, Format] = {
    "askapatient": Format(read_askapatient, "AskAPatient.fold-0.test.txt and so on"),
    "bc5cdr-chemical": Format(partial(read_pubtator, pattern=BC5CDR, types=["Chemical"]), "CDR_TestSet.PubTator.txt"),
    "bc5cdr-disease": Format(partial(read_pubtator, pattern=BC5CDR, types=["Disease"]), "CDR_TestSet.PubTator.txt"),
    "biosyn": Format(read_biosyn, "processed_test/*.concept, test_dictionary.txt and so on"),
    "brat": Format(read_brat, "<document>.txt and <document>.ann of your own, in a folder or in one for each part"),
    "cadec": Format(read_folds, "fold_1/test.txt, train.txt, standard.txt and so on"),
    "cometa-general": Format(partial(read_cometa, column=GENERAL), "train.csv, dev.csv, test.csv"),
    "cometa-specific": Format(partial(read_cometa, column=SPECIFIC), "train.csv, dev.csv, test.csv"),
    "ctd": Format(read_ctd, "CTD_diseases.tsv or CTD_chemicals.tsv"),
    "docbin": Format(read_docbin, "a file .spacy for each part"),
    "jsonl": Format(read_uniform, "a file .jsonl for each part, as this command writes it"),
    "mantra-brat": Format(read_mantra_brat, "Mantra-GSC-brat.zip"),
    "mantra-xml": Format(read_mantra_xml, "EMEA_GSC_de_man.xml and so on"),
    "medic": Format(read_medic, "medic_06Jul2012.txt"),
    "medmentions": Format(read_medmentions, "corpus_pubtator.txt and the lists corpus_pubtator_pmids_test.txt"),
    "medmentions-rows": Format(read_medmentions_rows, "train.txt, dev.txt, test.txt of PMID, mention and CUI"),
    "ncbi-disease": Format(partial(read_pubtator, pattern=NCBI_DISEASE), "NCBItestset_corpus.txt and so on"),
    "prodigy": Format(read_prodigy, "a file .jsonl for each part, of lines with text and spans"),
    "psytar": Format(read_folds, "fold_1/test.txt, train.txt, standard.txt and so on"),
    "pubtator": Format(partial(read_pubtator, pattern=ANY_PUBTATOR), "a file .txt or .pubtator for each part"),
    "snomed": Format(read_snomed, SNOMED_FILES),
    "snomed-gb": Format(partial(read_snomed, refset=GB_ENGLISH), REFSET_FILES),
    "snomed-us": Format(partial(read_snomed, refset=US_ENGLISH), REFSET_FILES),
    "xlbel": Format(read_xlbel, "de_1k_test_query.txt, or de_1k_test_query_with_context.txt, and so on"),
}


def find_reader(name: str, *, id_key: str = ID_KEY) -> Reader:
    """Find the reader of a format.

    name (str): The format, of `FORMATS`.
    id_key (str): For Prodigy, the key of a span's id.
    RETURNS (Reader): The reader.
    RAISES (ValueError): If there is none.
    """
    if name not in FORMATS:
        known = "; ".join(f"{known} ({format_.files})" for known, format_ in FORMATS.items())
        raise ValueError(Errors.E700.format(name=name, known=known))
    return partial(read_prodigy, id_key=id_key) if name == "prodigy" else FORMATS[name].read
