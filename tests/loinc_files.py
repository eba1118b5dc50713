"""Write small releases of LOINC: the columns and the forms of names of its table, and codes that are invented."""

import csv
from itertools import product

from spacy_sapbert.laboratory.parts import LoincParts, read_data
from spacy_sapbert.terminology.readers.loinc import compute_check_digit

CORE = (
    "LOINC_NUM COMPONENT PROPERTY TIME_ASPCT SYSTEM SCALE_TYP METHOD_TYP CLASS CLASSTYPE LONG_COMMON_NAME SHORTNAME "
    "EXTERNAL_COPYRIGHT_NOTICE STATUS VersionFirstReleased VersionLastChanged"
).split()
FULL = [*CORE, "CONSUMER_NAME", "RELATEDNAMES2", "DefinitionDescription", "COMMON_TEST_RANK", "DisplayName"]
# The names of properties and systems, by their abbreviations; of several, the first.
NAMES = {
    kind: {code: name for name, code in reversed(read_data("loinc_parts")[kind].items())}
    for kind in ("properties", "systems")
}
FLUIDS = ("CSF", "Plr fld", "Periton fld", "Synv fld", "Body fld")
SUBSTANCES = (
    "Creatinine Glucose Protein Albumin Calcium Magnesium Phosphate Urate Cholesterol Triglyceride Iron Ferritin "
    "Sodium Potassium Chloride Bicarbonate Bilirubin.total Bilirubin.direct Cortisol"
).split()
ENZYMES = ("Alanine aminotransferase", "Aspartate aminotransferase", "Lactate dehydrogenase", "Amylase", "Lipase")
CELLS = "Neutrophils Lymphocytes Monocytes Eosinophils Basophils".split()
# As component:property:system:method. Those with a rank come first.
OTHERS = """
Hemoglobin:MCnc:Bld:
Hemoglobin S/Hemoglobin.total:MFr:Bld:
Hemoglobin A1c/Hemoglobin.total:MFr:Bld:
Hematocrit:VFr:Bld:Automated count
Leukocytes:NCnc:Bld:Automated count
Leukocytes:NCnc:CSF:Manual count
Erythrocytes:NCnc:Bld:Automated count
Platelets:NCnc:Bld:Automated count
Leukocytes:Naric:Urine sed:Microscopy.light.HPF
Leukocytes:PrThr:Urine sed:Microscopy.light
Reticulocytes:NCnc:Bld:Manual count
Reticulocytes:NCnc:Bld:Automated count
Protein/Creatinine:MRto:Urine:
Cholesterol in HDL:MCnc:Ser/Plas:
Cholesterol in LDL:MCnc:Ser/Plas:Calculated
Cholesterol in LDL:MCnc:Ser/Plas:Direct assay
Thyroxine (T4) free:MCnc:Ser/Plas:
Thyrotropin:ACnc:Ser/Plas:
Nuclear Ab:PrThr:Ser:
Nuclear Ab:Titr:Ser:IF
Hepatitis B virus surface Ag:PrThr:Ser/Plas:IA
Hepatitis C virus RNA:NCnc:Ser/Plas:Probe.amp.tar
Hepatitis C virus Ab:PrThr:Ser/Plas:IA
Cocaine:PrThr:Urine:Screen
Cocaine:MCnc:Urine:Confirm
Vancomycin^trough:MCnc:Ser/Plas:
Vancomycin^peak:MCnc:Ser/Plas:
Vancomycin:MCnc:Ser/Plas:
CD3+CD4+ (T4 helper) cells:NCnc:Bld:
Hyaline casts:Naric:Urine sed:Microscopy.light.LPF
Macrophages/100 leukocytes:NFr:Plr fld:
Macrophages/100 leukocytes:NFr:Periton fld:
"""


def make_code(number):
    """Make a code that LOINC does not have: its numbers are smaller."""
    return f"{9_000_000 + number}-{compute_check_digit(str(9_000_000 + number))}"


def write_long_name(parts):
    """Write a long common name of parts."""
    component, _, challenge = parts.component.partition("^")
    is_plain = "/" in component and parts.property in ("NFr", "MFr")
    name = component if is_plain else f"{component} [{NAMES['properties'][parts.property]}]"
    hours = f"{parts.time.removesuffix('H')} hour " if parts.time != "Pt" else ""
    name += f" in {hours}{NAMES['systems'][parts.system]}"
    return f"{name}{f' by {parts.method}' if parts.method else ''}{f' --{challenge}' if challenge else ''}"


def list_parts():
    """List the parts of a few hundred tests."""
    for line in OTHERS.split("\n")[1:-1]:
        component, kind, system, method = line.split(":")
        yield LoincParts(component, kind, "Pt", system, "Ord" if kind == "PrThr" else "Qn", method)
    for name, system in product(SUBSTANCES, ("Ser/Plas", "Urine", "Bld", *FLUIDS)):
        for kind in ("MCnc", "SCnc"):
            yield LoincParts(name, kind, "Pt", system, "Qn")
    for name in SUBSTANCES:
        yield LoincParts(name, "MRat", "24H", "Urine", "Qn")
    for name, system in product(ENZYMES, ("Ser/Plas", *FLUIDS)):
        yield LoincParts(name, "CCnc", "Pt", system, "Qn")
    for name, system in product(CELLS, ("Bld", *FLUIDS)):
        for method in ("Automated count", "Manual count"):
            yield LoincParts(f"{name}/100 leukocytes", "NFr", "Pt", system, "Qn", method)
            yield LoincParts(name, "NCnc", "Pt", system, "Qn", method)


def make_row(number, parts, **fields):
    """Make a row of the table."""
    named = dict(zip(CORE[1:7], parts, strict=True))
    row = {"LOINC_NUM": make_code(number), "LONG_COMMON_NAME": write_long_name(parts), "STATUS": "ACTIVE"}
    row |= {"CLASS": "CHEM", "CLASSTYPE": "1", "VersionFirstReleased": "1.0", "VersionLastChanged": "2.80"}
    return {**row, **named, **fields}


def make_rows(*, with_ranks=False):
    """Make the rows of all tests. Ranks are those of the list."""
    rows = enumerate(list_parts(), 1)
    return [
        make_row(number, parts, **({"COMMON_TEST_RANK": str(number)} if with_ranks else {})) for number, parts in rows
    ]


def write_release(folder, rows, maps=None, columns=FULL):
    """Write the table, and what took the place of retired codes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("Loinc.csv" if columns is FULL else "LoincTableCore.csv")
    with path.open("w", encoding="utf8", newline="") as file:
        table = csv.DictWriter(file, columns, restval="", quoting=csv.QUOTE_ALL)
        table.writeheader()
        table.writerows(rows)
    if maps is not None:
        lines = ["LOINC,MAP_TO,COMMENT", *(f'"{code}","{other}",""' for code, other in maps)]
        (folder / "MapTo.csv").write_text("\r\n".join(lines), encoding="utf8")
    return path
