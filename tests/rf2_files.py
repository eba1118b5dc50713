"""Write small releases of SNOMED CT, with the names, columns and line ends that the specification of release files
gives."""

from itertools import count
from pathlib import Path

HEADERS = {
    "Concept": "id effectiveTime active moduleId definitionStatusId",
    "Description": "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId",
    "Relationship": "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId "
    "characteristicTypeId modifierId",
    "Language": "id effectiveTime active moduleId refsetId referencedComponentId acceptabilityId",
    "Association": "id effectiveTime active moduleId refsetId referencedComponentId targetComponentId",
}
HEADERS["TextDefinition"] = HEADERS["Description"]
FOLDERS = {"Language": "Refset/Language/der2_cRefset_", "Association": "Refset/Content/der2_cRefset_"}
CORE, FSN, SYNONYM, DEFINITION = "900000000000207008", "900000000000003001", "900000000000013009", "900000000000550004"
IS_A, US, GB = "116680003", "900000000000509007", "900000000000508004"
PREFERRED, ACCEPTABLE = "900000000000548007", "900000000000549004"
SAME_AS, REPLACED_BY, POSSIBLY, MOVED_TO, WAS_A = (
    f"900000000000{number}" for number in ("527005", "526001", "523009", "524003", "528000")
)
USUAL = {"effectiveTime": "20260101", "active": "1", "moduleId": CORE, "languageCode": "en", "typeId": SYNONYM}


def rf2_row(kind, **fields):
    """One row of a file; fields that are not given take the usual value, or 0."""
    assert set(fields) <= set(HEADERS[kind].split()), fields
    return "\t".join({**USUAL, **fields}.get(column, "0") for column in HEADERS[kind].split())


class Release:
    """Rows of a release, by kind of file, in the order in which they are added."""

    def __init__(self, first_id=100_000):
        self.rows, self.ids = {kind: [] for kind in HEADERS}, count(first_id)

    def add(self, kind, **fields):
        self.rows[kind].append(rf2_row(kind, **{"id": str(next(self.ids)), **fields}))

    def concept(self, id_, fsn=None, *synonyms, parents=(), **fields):
        """Add a concept, its names, which the US reference set accepts (the first one is preferred), and parents."""
        self.add("Concept", id=id_, **fields)
        for place, term in enumerate((fsn, *synonyms) if fsn else ()):
            self.name(f"{id_}{place}", id_, term, US if place == 1 else None, typeId=SYNONYM if place else FSN)
        for parent in parents:
            self.add("Relationship", sourceId=id_, destinationId=parent, typeId=IS_A)

    def name(self, id_, concept, term, preferred_in=None, **fields):
        self.add("Description", id=id_, conceptId=concept, term=term, **fields)
        if preferred_in:
            self.add("Language", refsetId=preferred_in, referencedComponentId=id_, acceptabilityId=PREFERRED)

    def associate(self, refset, id_, other, **fields):
        self.add("Association", refsetId=refset, referencedComponentId=id_, targetComponentId=other, **fields)

    def write(self, folder, *, type="Snapshot", owner="INT", date="20260101", ending="\r\n", **languages):
        """Write the files. Languages name the part behind a kind, such as Description="-es"."""
        for kind, rows in self.rows.items():
            start = FOLDERS.get(kind, "Terminology/sct2_")
            content = f"{kind}{type}" if kind in FOLDERS else f"{kind}_{type}"
            path = Path(folder) / type / f"{start}{content}{languages.get(kind, '')}_{owner}_{date}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            header = "\t".join(HEADERS[kind].split())
            path.write_bytes("".join(f"{row}{ending}" for row in [header, *rows]).encode())
        return Path(folder)
