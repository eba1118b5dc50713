"""Write small releases by hand."""

import gzip

from spacy_sapbert.terminology.readers.rrf_lines import COLUMNS

DEFAULTS = {
    "MRCONSO": {
        "LAT": "ENG",
        "TS": "S",
        "STT": "PF",
        "ISPREF": "Y",
        "SAB": "MSH",
        "TTY": "PT",
        "SRL": "0",
        "SUPPRESS": "N",
    },
    "MRREL": {"REL": "RO", "SAB": "MSH", "SUPPRESS": "N"},
    "MRDEF": {"SAB": "MSH", "SUPPRESS": "N"},
}


def rrf_line(file, columns=None, **fields):
    """One line of a file; fields that are not given take the usual value, or none."""
    columns = columns or COLUMNS[file].split()
    assert set(fields) <= set(columns), fields
    values = {**DEFAULTS.get(file, {}), **fields}
    return "".join(f"{values.get(column, '')}|" for column in columns)


def atom(cui, name, **fields):
    return rrf_line("MRCONSO", CUI=cui, STR=name, **fields)


def write_release(folder, **files):
    """Write files of lines, or of bytes as they are: MRCONSO=[...]. A name ending in _gz is packed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        data = lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode()
        packed = name.endswith("_gz")
        name = name.removesuffix("_gz")
        (folder / f"{name}.RRF{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
    return folder
