"""Write small downloads of Athena, with the columns, tabs and line ends of its files."""

CONCEPT = (
    "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code valid_start_date "
    "valid_end_date invalid_reason"
)
HEADERS = {
    "CONCEPT": CONCEPT,
    "CONCEPT_SYNONYM": "concept_id concept_synonym_name language_concept_id",
    "CONCEPT_RELATIONSHIP": "concept_id_1 concept_id_2 relationship_id valid_start_date valid_end_date invalid_reason",
    "VOCABULARY": "vocabulary_id vocabulary_name vocabulary_reference vocabulary_version vocabulary_concept_id",
}
USUAL = {"domain_id": "Condition", "vocabulary_id": "SNOMED", "concept_class_id": "Disorder", "standard_concept": "S"}
USUAL |= {"valid_start_date": "19700101", "valid_end_date": "20991231", "language_concept_id": "4180186"}


class Download:
    """Rows of a download, by file, in the order in which they are added."""

    def __init__(self):
        self.rows = {name: [] for name in HEADERS}

    def add(self, name, **fields):
        """Add a row; fields that are not given take the usual value, or are empty."""
        columns = HEADERS[name].split()
        assert set(fields) <= set(columns), fields
        self.rows[name].append([{**USUAL, **fields}.get(column, "") for column in columns])

    def concept(self, id_, name, *, code=None, invalid="", **fields):
        own = {"concept_id": id_, "concept_name": name, "concept_code": f"K{id_}" if code is None else code}
        if invalid:
            own["standard_concept"] = ""
        self.add("CONCEPT", **own, invalid_reason=invalid, **fields)

    def synonym(self, id_, name, language="4180186"):
        self.add("CONCEPT_SYNONYM", concept_id=id_, concept_synonym_name=name, language_concept_id=language)

    def relate(self, first, relation, second, invalid=""):
        fields = {"concept_id_1": first, "concept_id_2": second, "relationship_id": relation}
        self.add("CONCEPT_RELATIONSHIP", **fields, invalid_reason=invalid)

    def write(self, folder, *, ending="\n", leave_out=()):
        """Write the files, and return the folder."""
        folder.mkdir(exist_ok=True)
        for name, rows in self.rows.items():
            if name not in leave_out:
                lines = ["\t".join(row) for row in [HEADERS[name].split(), *rows]]
                (folder / f"{name}.csv").write_bytes("".join(line + ending for line in lines).encode())
        return folder
