"""The columns of RRF files (UMLS Reference Manual, chapter 3), and their content in files by `write_rrf`."""

# Standard columns, for folders without MRFILES.
COLUMNS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
    "MRSAB": "VCUI RCUI VSAB RSAB SON SF SVER VSTART VEND IMETA RMETA SLC SCC SRL TFR CFR CXTY TTYL ATNL LAT CENC "
    "CURVER SABIN SSN SCIT",
    "MRCUI": "CUI1 VER REL RELA MAPREASON CUI2 MAPIN",
    "MRSAT": "CUI LUI SUI METAUI STYPE CODE ATUI SATUI ATN SAB ATV SUPPRESS CVF",
    "MRDOC": "DOCKEY VALUE TYPE EXPL",
    "MRFILES": "FIL DES FMT CLS RWS BTS",
    "MRCOLS": "COL DES REF MIN AV MAX FIL DTY",
}
DESCRIPTIONS = {
    "MRCONSO": "Concept names and their sources",
    "MRSTY": "Semantic types",
    "MRDEF": "Definitions",
    "MRREL": "Relations between concepts",
    "MRSAT": "Attributes: codes of sources without names",
    "MRSAB": "Sources",
    "MRFILES": "Files",
    "MRCOLS": "Columns of files",
}

# The meanings of the columns that `write_rrf` fills. The others are empty.
MEANINGS: dict[str, dict[str, str]] = {
    "MRCONSO": {
        "CUI": "Identifier of the concept",
        "LAT": "Language of the name",
        "TS": "Term status: P for preferred, S for others",
        "LUI": "Identifier of the term: names equal up to case",
        "STT": "String type: PF for preferred, VO for a variant",
        "SUI": "Identifier of the string",
        "ISPREF": "Whether the atom is the preferred one of its string",
        "AUI": "Identifier of the atom",
        "SCUI": "Identifier of the concept in the source",
        "SAB": "Source",
        "TTY": "Term type in the source",
        "CODE": "Code in the source",
        "STR": "Name",
        "SRL": "Restriction level of the source",
        "SUPPRESS": "Whether the atom is suppressible",
    },
    "MRSTY": {
        "CUI": "Identifier of the concept",
        "TUI": "Identifier of the semantic type",
        "STY": "Name of the semantic type",
        "ATUI": "Identifier of the attribute",
    },
    "MRDEF": {
        "CUI": "Identifier of the concept",
        "AUI": "Identifier of the atom",
        "ATUI": "Identifier of the attribute",
        "SAB": "Source",
        "DEF": "Definition",
        "SUPPRESS": "Whether the definition is suppressible",
    },
    "MRREL": {
        "CUI1": "Identifier of the first concept",
        "STYPE1": "What the first identifier is of",
        "REL": "Relation of the second concept to the first",
        "CUI2": "Identifier of the second concept",
        "STYPE2": "What the second identifier is of",
        "RELA": "Closer relation of the second concept to the first",
        "RUI": "Identifier of the relation",
        "SAB": "Source",
        "SL": "Source of the relation's label",
        "SUPPRESS": "Whether the relation is suppressible",
    },
    "MRSAT": {
        "CUI": "Identifier of the concept",
        "METAUI": "Identifier of what has the attribute",
        "STYPE": "What that identifier is of",
        "ATUI": "Identifier of the attribute",
        "ATN": "Name of the attribute",
        "SAB": "Source",
        "ATV": "Value of the attribute",
        "SUPPRESS": "Whether the attribute is suppressible",
    },
    "MRSAB": {
        "VSAB": "Source with its version",
        "RSAB": "Source",
        "SON": "Name of the source",
        "SF": "Family of the source",
        "SVER": "Version of the source",
        "SLC": "Licence of the source",
        "SRL": "Restriction level of the source",
        "TFR": "Names from the source",
        "CFR": "Concepts with a name from the source",
        "TTYL": "Term types of the source",
        "LAT": "Language of the source",
        "CENC": "Character encoding",
        "CURVER": "Whether this is the current version",
        "SABIN": "Whether the source is among these files",
        "SSN": "Short name of the source",
        "SCIT": "Citation",
    },
    "MRFILES": {
        "FIL": "File",
        "DES": "Description",
        "FMT": "Columns",
        "CLS": "Number of columns",
        "RWS": "Number of rows",
        "BTS": "Size in bytes",
    },
    "MRCOLS": {
        "COL": "Column",
        "DES": "Description",
        "MIN": "Smallest length in characters",
        "AV": "Mean length",
        "MAX": "Largest length",
        "FIL": "File",
        "DTY": "Type in SQL",
    },
}


def describe_columns(file: str) -> dict[str, str]:
    """Describe all columns of a file that `write_rrf` writes.

    file (str): The file without its ending, such as "MRCONSO".
    RETURNS (dict[str, str]): Descriptions by column, in the file's order.
    """
    return {column: MEANINGS[file].get(column, "Not used here") for column in COLUMNS[file].split()}
