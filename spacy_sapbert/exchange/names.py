"""The formats of annotated texts by name, and by what their files begin with. What reads and writes them, in `formats`,
imports spaCy, and no help text has to wait for that."""

import re
from pathlib import Path

WRITTEN = ("bioc", "brat", "csv", "inception", "parquet", "prodigy", "prodigy-choice", "pubtator", "tsv")
# Exports of annotation tools.
READ_ONLY = ("doccano", "label-studio", "medcattrainer", "pubannotation")
# What shows the format of JSON and XML. The first sign in a file counts.
SIGNS = {
    "medcattrainer": rb'(?s)"projects"\s*:\s*\[.*"documents"\s*:',
    "inception": rb'"%FEATURE_STRUCTURES"\s*:',
    "bioc": rb'"passages"\s*:|<collection>',
    "pubannotation": rb'"denotations"\s*:|"tracks"\s*:',
    "label-studio": rb'"(?:from_name|was_cancelled|lead_time)"\s*:|"labels"\s*:\s*\[\s*"',
    "doccano": rb'"labels?"\s*:\s*\[\s*\[\s*\d|"start_offset"\s*:',
    "prodigy": rb'"spans"\s*:|"_task_hash"\s*:',
}
FROM_INCEPTION = "Export the documents from INCEpTION as UIMA CAS JSON, and read their folder as inception."
# What is not read: its sign, and the way out.
UNREAD = {
    "UIMA XMI": (rb'(?s)\A\s*<.*"http:///uima/', FROM_INCEPTION),
    "WebAnno TSV": (rb"\A\s*#FORMAT=WebAnno TSV", FROM_INCEPTION),
    "a ZIP archive": (rb"\APK\x03\x04", "Unpack it, and give what is in it."),
}
# How the names of files end that a folder of a format has in any case. Others beside them are no sign.
OWN_FILES = {"brat": ".ann", "csv": "mentions.csv", "tsv": "mentions.tsv"}
N_BYTES = 1_000_000
N_FILES = 10


def find_other(name: str, source: Path) -> str:
    """Say what a file or a folder is, and what to do, if signs show that it is not of the format that was chosen; ""
    if nothing shows it."""
    paths = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    if name in OWN_FILES and any(path.name.endswith(OWN_FILES[name]) for path in paths if path != source):
        return ""
    for path in paths[:N_FILES]:
        with path.open("rb") as file:
            start = file.read(N_BYTES).removeprefix(b"\xef\xbb\xbf")
        for kind, (sign, way) in UNREAD.items():
            if re.search(sign, start):
                return f"{path} is {kind}, which no format here reads. {way}"
        if not start.lstrip().startswith((b"{", b"[", b"<")):
            continue
        kinds = [kind for kind, sign in SIGNS.items() if re.search(sign, start)]
        if kinds and name.removesuffix("-choice") not in kinds:
            return f"{path} looks like {kinds[0]}, not {name}. Read it with `from {kinds[0]}`."
    return ""
