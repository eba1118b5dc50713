"""The errors of exchange formats and of the service: each says what happened, why that is likely, and what to do."""


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

    # E48x and E49x: the service
    E480 = (
        "The request is addressed to {found!r}, which is not known as a name of this machine, so it may come from a "
        "page of another site. Start the service with `--hosts NAME` for each name or address that clients use."
    )
    E481 = "The request's body is {found!r}, but has to be application/json. Set the header Content-Type."
    E482 = (
        "The request comes from a page of {found!r}, not from this service's own. Start the service with `--hosts "
        "NAME` if that is a name of this machine."
    )
    E483 = (
        "{what} needs the package {package}, which is not installed. In the checkout, run "
        "`pip install -c constraints.txt '.[service]'`."
    )
    E490 = "The request has more than {limit:,} bytes. Send fewer texts at once; `--max-body` sets the limit."
    E491 = (
        "The pipeline has no `sapbert_linker` with concepts, so there is nothing to serve. It has: {found}. Serve a "
        "pipeline that was saved after `linker.initialize`."
    )
    E492 = "The request can't be used: {place}: {reason}. The address /docs shows what each request looks like."
    E493 = "The pipeline failed with {kind}. The service's log says where."
    E494 = "Corrections are not kept here: start the service with `--gold FILE`."
    E495 = (
        "The request has {n} texts, the longest of {longest:,} characters. Allowed are {limits}; `--max-texts` and "
        "`--max-characters` set the limits."
    )
    E496 = "Too many requests wait. Try again in a second; `--queue-size` sets how many may wait."
    E497 = "The document of INCEpTION can't be used: {reason}. Check the recommender's layer and feature there."
    E498 = (
        "A text has {run:,} characters without white space, which spaCy's tokenizer would take long for. Allowed are "
        "{limit:,}; `--max-run` sets the limit."
    )
    E499 = "The request takes longer than {seconds:g} seconds. Send less text at once; `--max-seconds` sets the limit."
