"""Messages of evaluation: corpora, protocols, benchmarks, probes, reports and figures."""


class EvaluationErrors:
    """Situations in which a command that measures cannot go on."""

    # E70x: original files of corpora
    E700 = "There is no reader for {name!r}. Formats, and the files of each: {known}."
    E701 = (
        "{place}: {reason}. The form is {form}. The file is probably damaged, was edited, or is of another corpus or "
        "version. Correct it, or have such records left out and counted with --errors skip."
    )
    E702 = (
        "Can't read the archive {file}: {reason}. The download was probably cut short, or it needs a password. Fetch "
        "it again, or unpack it and give the folder."
    )
    E703 = (
        "No file, or not all that are needed, have the names that this format has ({pattern}), but there is: {found}. "
        "Give the file or the folder as its authors hand it out, with their file names."
    )
    E704 = (
        "{part} is there twice: {first} and {second}. They are probably two versions, or two copies. Leave one of them "
        "there."
    )
    E705 = (
        "Files of folds are missing: {missing}. What is averaged over the others is no longer the published measure. "
        "Fetch them as well. There are: {found}."
    )
    E706 = (
        "There is no mention and no name in {path}, read as {name} (left out: {left_out}). The files are probably of "
        "another format."
    )
    E707 = (
        "The files of SNOMED CT are not those of one edition and release: {reason}. No published figure is of such "
        "names. Give the snapshot of one release package, unpacked and with the file names that it was published with."
    )

    # E72x: evaluation protocols
    E720 = (
        "The protocol adds mentions seen before to the dictionary or leaves them out, but none are given. Give those "
        "of the training and development parts, or take a protocol that needs none, such as 'strict'."
    )
    E721 = (
        "There is nothing to measure: {left} of {mentions} mentions and {names} names are left under the protocol. "
        "Check that the files are those of this corpus."
    )
    E722 = (
        "Can't split {documents} documents into {shares}: shares are 0 or more, sum up to 1, and each part needs a "
        "document. Correct the shares, or give more documents."
    )
    E723 = "The share of concepts to take out is {share}, but has to be 0 or more and less than 1."
    E724 = "--split is {split!r}, but has to be three numbers with commas between them, as 0.7,0.1,0.2."
    E725 = (
        "No gold mention can be linked: {reason}. Give a pipeline with a linker that sets `kb_candidates`, and "
        "documents that `convert-documents` has written."
    )

    # E75x: benchmarks
    E750 = (
        "{path} does not hold vectors of strings: {reason}. It is damaged, or another file. Delete its folder, and "
        "they are computed again."
    )
    E751 = (
        "{path}: the section [{section}] can't be used: {reason}. Check the spelling of its keys, and see the sections "
        "of the files that come with the project."
    )
    E752 = (
        "The system {system} needs {path}, which is not there. Train it first, correct the path, or take the system "
        "out of the config."
    )
    E753 = (
        "{path} has no mentions. As a fold it would drop out of the average without a word: fetch it again, or take it "
        "out of the folder."
    )
    E754 = (
        "The models {path} can't be measured fold by fold on {corpus}: {reason}. Convert all folds of the corpus, keep "
        "the folder of each run with its settings.json and its pairs, or set `tasks` to corpora with folds."
    )
    E755 = (
        "There is no encoder in {path} (seen from {cwd}). It was probably not trained yet: train it first, or correct "
        "the path (in a project, the variable: `--vars.encoder`, `--vars.trained_encoder`)."
    )
    E756 = (
        "{option} names the corpus {given!r}, which is not listed, or whose dictionary is part of it. Those with a "
        "dictionary that can be chosen: {known}."
    )
    E757 = (
        "The dictionary of {corpus} is said to be {said}, but {path} was made of {found}. Figures would stand beside "
        "those of another dictionary: correct --releases, or give the dictionary that is meant."
    )
    E758 = "{given!r} can't be used for {option}: give {what}, several with commas between them, and each name once."
    E759 = (
        "{path} can't be measured on fold {fold} of {corpus}: its training ({run}) was {reason}. Train a model for "
        "each fold on the other parts of this fold only, and put {{fold}} in the path of the system."
    )

    # E77x: tables of vectors, and the tasks that compare vectors of concepts and words
    E770 = (
        "{file}, line {line}: {reason}. A table of vectors has an id and its numbers on each line, with commas or "
        "spaces between them, as many numbers on each, and each id once. The file was probably cut or edited: fetch it "
        "again, or correct the line."
    )
    E771 = "There is no vector in {file}: {reason}. The download was probably incomplete; fetch the file again."
    E772 = (
        "MCSM compares each concept with its {k} nearest others, but only {found} {what}. Choose another source or "
        "more concepts; semantic types are known if the terminology was read from a release with MRSTY."
    )
    E773 = (
        "Nothing can be learned of {path}: {reason}. Of {triples} triples, these were left out: {left_out}. Ask for "
        "fewer triples of a relation, or give more of them."
    )
    E774 = (
        "None of the {wanted} {what} has a vector in {vectors}. Its ids or words are probably of another kind; these "
        "were looked for: {examples}."
    )
    E775 = (
        "{file}, line {line}: {reason}. A list of word pairs is a CSV file with a header: TERM1, TERM2, one or more of "
        "{ratings}, and perhaps CUI1 and CUI2. Take the file as its authors published it, or correct the line."
    )
    E776 = (
        "{file}, row {row}: {reason}. Word vectors in word2vec's binary form have a first line of two numbers, and "
        "rows of a word, a space and numbers of four bytes. The download was probably incomplete, or the file is text "
        "in spite of its name: fetch it again, or rename it to end in .txt."
    )
    E777 = (
        "{name} has no word vectors. Small spaCy pipelines are without them: take one whose name ends in md or lg, or "
        "a file of word vectors as word2vec writes it."
    )
    E778 = "There is nothing to measure: no encoder and no vectors are given. Name an encoder, or give --vectors."

    # E78x: published figures, and reports of measurements
    E780 = (
        "{file}, line {line}: {reason}. Published figures are listed with tabs between source, table, system, corpus, "
        "metric, value, pooling, supervised and note, and each once. Correct the line, or add the source or the table "
        "to literature_sources.cfg."
    )
    E781 = (
        "{file} can't be reported on: {reason}. It was probably edited, or written by another version or program. "
        "Measure again into an empty folder."
    )
    E782 = (
        "{file}, line {line}: {reason}. A line of predictions is an object of JSON with `mention`, `queries`, `gold`, "
        "`candidates` (a list for each query) and `hits`. The file was probably cut or edited: delete it, and measure "
        "again."
    )
    E783 = (
        "Two systems can only be compared on the same {what}: one has {first}, the other {second}. They were probably "
        "measured on different versions of a corpus. Measure both again."
    )
    E784 = (
        "The figure {file} is of another form than .svg or .png, or its name is that of a file outside the folder of "
        "figures. Draw it again, and name it in figures.json by its file name alone."
    )

    # E79x: figures and case studies
    E790 = (
        "The vectors of '{label}' can't be used: {reason}, for {n} strings. Give a function that returns one vector of "
        "length 1 for each string."
    )
    E791 = "Can't draw {n} {group}s: {reason}. Ask for another number, or list concepts by their ids."
    E792 = (
        "These concepts can't be drawn: {ids}. Each has to be in the terminology with two names or more that none of "
        "the others has, and there have to be two. Check the ids, and the languages of the names."
    )
    E793 = (
        "The encoders of the figure are called {labels}, and nobody could tell some of them apart. Give each a label "
        "of its own, as in LABEL=ENCODER."
    )
    E794 = "There is nothing to look up: {reason}. Check the strings, the ids, the languages and the sources."

    # E82x: languages
    E820 = (
        "Can't ask across languages: names in {target} are to be searched for others, and the terminology has names in "
        "{languages}. It was probably read for one language. Read it with `preprocess --languages all`, or choose "
        "another target."
    )
    E821 = (
        "None of the {n} concepts has a name to ask for: it needs one in {target}, and one in another language that is "
        "written differently and that no other concept has. Give other concepts, or a larger limit of queries."
    )
    E822 = (
        "Can't hold out {held_out} concepts for a dictionary of {dictionary} (0: all): {eligible} have a name in "
        "{target} and one in another language that is written differently and that no other concept has; some have to "
        "be left for training, and the dictionary holds the held-out ones. Hold fewer out, or make the dictionary "
        "larger."
    )
    E823 = (
        "The language {language!r} can't be part of a file's name, and no file of UMLS has such a LAT. The "
        "terminology's languages were probably given wrongly: give LAT as in UMLS (GER), or letters, digits and "
        "hyphens only."
    )
    E824 = (
        "The split {path} does not ask for names by language. It was probably written by `split`: use "
        "`language-split`, or measure its held_out.json with `measure`."
    )
