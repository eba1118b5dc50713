"""The errors of exchange formats: each says what happened, why that is likely, and what to do."""


class OutsideErrors:
    """Messages for what comes from outside, or goes there."""

    # E47x: exchange formats
    E470 = (
        "{place}: {reason}. The form is {form}. The file is probably damaged or of another kind, or the format cannot "
        "hold this. Correct it, or set errors = 'skip' (--errors skip) to have such records left out and counted."
    )
    E471 = (
        "The URI of the code system '{source}' is not known, and FHIR asks for one. Give it as `systems` (--system "
        "{source}=URI), or choose among the known sources: {known}."
    )
    E472 = "{path} is there already, and not empty: old files would be taken for new ones. Choose another, or clear it."
    E473 = "There is no format '{name}' to {direction}. There are: {known}."
    E474 = (
        "{path} is not Athena's {wanted}, because it has no column {missing}. Its columns are: {found}. Give the "
        "file as it is in the download, with tabs between columns."
    )
    E475 = (
        "{path} has no column {missing}. Its columns are: {found}. Name them in the first line, with commas between "
        "them in a .csv and tabs in a .tsv."
    )
    E476 = (
        "{path} cannot be read as a table of Athena: {reason}. It is perhaps cut off, in another encoding than UTF-8, "
        "or was saved by another program. Take the file as it is in the download."
    )
    E477 = (
        "The attribute {name} of a mention is {value!r:.80}, neither true nor false. Say which of its values counts, "
        "as in --negated {name}=VALUE."
    )
