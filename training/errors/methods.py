"""Messages of single methods: CODER, CODER++, static encoders, of sweeps that compare methods, and of adaptation."""


class MethodErrors:
    """Situations in which a method, or a sweep of several methods, cannot go on."""

    # E80x: CODER
    E801 = (
        "The terminology {path} has no names in {missing}; it has names in {found}. Correct data.languages, or read "
        "the release with these languages (`preprocess --languages`)."
    )
    E802 = (
        "None of the {n} triples of {path} can be learned from with the names of {terminology}: {left_out}. They are "
        "probably of another release, or data.languages are others than the terminology has for these concepts."
    )
    E803 = (
        "There are {n} triples, and a batch needs {wanted} distinct ones: batch.triplets = {triplets}, "
        "batch.repetitions = {repetitions}. Make batches smaller, or give more triples."
    )
    E804 = (
        "All {n} triples of {path} that can be used have the same tail, {concept}, so that there is nothing to tell "
        "apart. Give triples with other tails, or set loss.relations to none."
    )
    E805 = (
        "The checkpoint {path} has learned other relations: without {new}, and with {gone}. The triples were probably "
        "made with another label or of another release, or data.min_triples has changed. Set another output folder for "
        "this run, delete the checkpoints, or give the triples of before."
    )
    E806 = (
        "{path} does not hold relations: {reason}. It was probably cut, or written by another program. Give a "
        "relations.safetensors of a run with the method coder."
    )
    E807 = (
        "The relations of {path} belong to the encoder {trained}, and are to be used with {found}. Give the encoder "
        "folder that the run has left beside them: encoders made by `export` have no relations."
    )
    E808 = (
        "Matrices of {labels:,} relations, {width} x {width} numbers each, need {needed:.1f} GB with gradients and "
        "moments, and {device} has {available:.1f} GB left. Set loss.relations to diagonal, which needs {vectors:.3f} "
        "GB, raise data.min_triples for fewer labels, or take a larger machine."
    )

    # E81x: CODER++
    E810 = (
        "There is nothing to learn from in {path}: {names} distinct names of {concepts} concepts, {anchors} of which "
        "have synonyms, and each is to have {neighbours} neighbours. There have to be two concepts, a name with a "
        "synonym, and more names than batch.neighbours. Give a larger terminology, or correct data.languages or "
        "batch.neighbours."
    )
    E811 = (
        "The neighbours of step {step} are not in {path}. They were looked for at step {start}, with the encoder as it "
        "was then, and were probably deleted since. Put the folder back, or set another output folder to begin anew."
    )
    E812 = (
        "The neighbours in {path} are of other names or anchors, or of another number: probably of a run with other "
        "settings or another terminology in the same folder. Set another output folder, or delete this one."
    )

    # E83x: sweeps of several methods
    E830 = (
        "{path}: [sweep] sets `method`, which stands in the config of the run. Delete the line, and write "
        "`method = {method!r}` below [run] of {config}."
    )
    E831 = (
        "{given} is given without {missing}. Give what is missing: `python -m training {command} --help` says what "
        "each option is for."
    )
    E832 = (
        "{n} of {triples} triples that are to be measured as unseen are not: runs are trained on both of their "
        "concepts with the names in {path}. The first is that of {head} and {tail}. Give the terminology that these "
        "runs are trained on as --unseen."
    )
    E833 = (
        '{where} names no method. Add the line `method = "..."` below [run], with one of {methods}. Runs of versions '
        "that did not name the method have to be trained again."
    )

    # E84x: static encoders
    E840 = (
        "A static encoder can't be trained: {reason}. Give a teacher with a WordPiece vocabulary in paths.encoder, and "
        "a file with a string on each line in paths.texts."
    )

    # E85x: pipelines that learn from annotations
    E850 = "The pipeline {path} can't be adapted: {reason}."
    E851 = (
        "The encoder can't read the mentions in {path}, such as {example!r}: {unknown} of {n} consist for the most part"
        " of tokens that its vocabulary does not know, and a token has {letters} letters on average, but {usual} in the"
        " terminology's names. They are probably in another script or language. Adapt a pipeline whose encoder was "
        "trained for it, such as xlmr of training/encoders/bases.cfg."
    )
    E852 = (
        "--shares is {shares!r}, but has to be numbers from 0 to 1 with commas between them. 1 is the encoder before "
        "training, as 0,0.25,0.5,0.75,1."
    )
