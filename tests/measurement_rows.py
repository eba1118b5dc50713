"""Measurements as tables of cases write them: "sodium: 118 mmol/L L | troponin: - H"."""

from spacy_sapbert.measurements.reader import read_measurements


def write_measurement_row(data):
    values = data["value"] if isinstance(data["value"], list) else [data["value"]]
    written = "-" if data["value"] is None else data["comparator"] + ", ".join(map(str, values))
    parts = [f"{data['analyte']}: {written}", *([data["unit"]] if written != "-" else []), data["interpretation"]]
    return " ".join(parts)


def write_measurements(text):
    return " | ".join(write_measurement_row(one.data) for one in read_measurements(text))
