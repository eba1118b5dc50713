"""The catalogue of warnings: each says what happened, why that is likely, and what to do."""

from .messages import MISSING_FILE, WRONG_LENGTH, WithCodes


class Warnings(metaclass=WithCodes):
    """Messages for situations that are survivable but that a user would want to know of."""

    # W1xx: terminologies
    W101 = (
        "{file}: {n} malformed records were skipped because errors = 'skip', the first at {example}. The terminology "
        "lacks their content. The first 20 are in `terminology.report`; correct the file, or set errors = 'raise' "
        "to stop at the first."
    )
    W102 = (
        "{folder} has no {file}, so the terminology is without {what}. Copy the file there if the release has it; a "
        "subset made with MetamorphoSys may have left it out."
    )
    W103 = WRONG_LENGTH
    W104 = (
        "{n} of {total} rows of {file} are about concepts that MRCONSO does not have, and were left out. One release "
        "rarely has so many: the folder probably mixes the files of two releases."
    )
    W140 = (
        "{folder} has no MRCUI, which lists the successors of retired concepts. Concepts missing from the new release "
        "count as retired, unless another one has their id as a code. Copy MRCUI.RRF there if the release has it."
    )
    W105 = MISSING_FILE + " The terminology lacks its content."

    # W3xx: index
    W301 = (
        "{package} is not installed, so all {rows} names are compared with every mention: the same links, more slowly. "
        "Install ScaNN (Linux) or usearch (all systems), and use the index 'spacy-sapbert.AutoIndex.v1'."
    )
    W302 = (
        "The index finds {found:.4f} of the nearest names at its largest budget, less than recall_target = {target}. "
        "Use the index 'spacy-sapbert.ExactIndex.v1' if that is too little."
    )

    W303 = (
        "An index of {rows:,} rows needs about {needed:.1f} GB of memory while it is built, and {available:.1f} GB are "
        "available. The system may end the process, or become slow. Use a machine with more memory, a terminology of "
        "fewer names, or an encoder of narrower vectors; with `vectors_path`, encoded names are not lost."
    )

    # W4xx: linker
    W401 = (
        "A mention of {n} characters is too long to be a name (limit {limit}) and gets no candidates. The entity "
        "recogniser before the linker probably joined several entities, or a whole text."
    )
    W410 = (
        "{missing} of {n} names can't be found by the linker: the encoder's vocabulary knows none of their tokens. Use "
        "an encoder for their language or script, or leave them out of the terminology."
    )
    W441 = (
        "{n} files of vectors in '{path}' are damaged, the first is {file}. The disk was probably full, or the machine "
        "went down while they were written. They are deleted, and their names are encoded again."
    )
    W411 = (
        "The linkers '{first}' and '{second}' link the same mentions, and both {what}. Give each an `attribute` of its "
        "own and all but one `set_kb_id = false`, or divide the labels by `link_labels` and `skip_labels`. "
        "`linker.get_candidates(span)` keeps them apart in any case."
    )
    W451 = (
        "The reranker '{name}' was trained with another terminology; this one lacks {missing} of the {n} annotated "
        "concepts. Train it again for the best decisions."
    )
    W452 = (
        "{n} of {total} annotated mentions have gold ids that the terminology lacks, and are learned as NIL: "
        "{examples}. If these ids should be there, gold ids and terminology do not fit."
    )
    W453 = (
        "No threshold of the reranker '{name}' gives a precision of {wanted} on these documents. The one with the "
        "highest precision, {found:.3f}, was chosen. More annotated documents help."
    )
    W454 = (
        "All {n} decisions of the reranker '{name}' on these documents are {what}, so nothing tells its probabilities "
        "apart, and they stay as they are. Calibrate on more documents, which it was not trained with."
    )
    W460 = (
        "The matcher '{name}' stands behind the linker '{linker}', which therefore does not link what it finds. Put it "
        'before the linker: `nlp.add_pipe("terminology_matcher", before="{linker}")`.'
    )
    W450 = (
        "`{attr}` is already registered by another library (scispaCy, for one), so it does not show what {what}. Read "
        "that from {instead}, or use one of the two components only."
    )
