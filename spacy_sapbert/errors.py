"""The catalogue of errors, and that of warnings: each says what happened, why that is likely, and what to do."""

from .messages import MISSING_FILE, WRONG_LENGTH, WithCodes
from .outside_messages import OutsideErrors
from .warning_messages import Warnings

__all__ = ["Errors", "Warnings"]


class Errors(OutsideErrors, metaclass=WithCodes):
    """Messages for situations in which going on would give a wrong answer or none."""

    # E1xx: terminologies
    E101 = (
        "{file}, line {line}: {reason}. The file is damaged, is not of the kind that this reader expects, or was "
        "edited by hand. Correct the line, or set errors = 'skip' to leave such records out and have them counted in "
        "the terminology's report."
    )
    E102 = "Can't find the file {file}. Check the path: a relative one starts from the folder you run in ({cwd})."
    E103 = "{file} {found}. The copy was probably cut short, or the file is of another kind. Fetch or copy it again."
    E104 = (
        "The terminology is empty: {files} gave no concept with a name (read: {read}; dropped: {dropped}). The file is "
        "probably of another kind than the reader expects, or its settings name the wrong columns."
    )
    E105 = (
        "No concept with the id '{id}' is in the terminology of {n} concepts. Ids are matched exactly, case and prefix "
        "included. Test with `id in terminology` first."
    )
    E106 = (
        "Row {row} is outside the {n} {what} of the terminology. An index built from another terminology, or its "
        "padding of -1, gives such rows."
    )
    E109 = (
        "Can't use {id!r} as the id of a concept: {reason}. Ids end up in `token.ent_kb_id_` and in files of one "
        "record per line, so they need to be visible text without spaces."
    )
    E110 = "Can't use {text!r:.80} as a text ({what}) of the concept '{id}': {reason}. Correct it in the source."
    E111 = (
        "{file} has no column '{column}', which the reader's setting {setting} names. Its columns are: {found}. "
        "Correct the setting, the delimiter ({delimiter!r}), or give `header` if the file has none."
    )
    E112 = (
        "Can't tell the delimiter of {file} from its name, which ends neither in .tsv nor in .csv. Set `delimiter` to "
        "the character between its columns."
    )
    E113 = "{file} looks like {found}, and is not in OBO format. {advice}"
    E114 = (
        "{file}: the header names the column '{column}' {n} times, so the setting is ambiguous. Rename one, "
        "or give `header` to name the columns yourself."
    )
    E115 = (
        "The tables given to Terminology don't fit together: {reason}. Use TerminologyBuilder, which sorts and checks "
        "them."
    )
    E116 = (
        "No term of {file} has a cross-reference with the prefix '{prefix}', so none would get such an id. Prefixes "
        "are case-sensitive; those found are: {found}."
    )
    E119 = (
        "Parts of a file are missing in {folder}: {files}. They have to be named .aa, .ab, .ac and so on without a "
        "gap. Copy the others there as well."
    )
    E120 = (
        "There is no MRCONSO.RRF (nor MRCONSO.RRF.gz, nor parts MRCONSO.RRF.aa.gz, ...) in {folder}. Give the folder "
        "that holds the files of a release in Rich Release Format; a relative path starts from the folder you run in "
        "({cwd}). UMLS is licensed, free of charge, at https://www.nlm.nih.gov/research/umls: sign in, download the "
        "'UMLS Metathesaurus Full Subset' and unpack it. Without a licence, `projects/open_terminology` makes such a "
        "folder of open ontologies."
    )
    E121 = "{file} has no column {column}. According to MRFILES, its columns are: {found}."
    E122 = WRONG_LENGTH + " Copy the release again, or set errors = 'skip' to read the file as it is."
    E123 = (
        "{folder} holds the same file in several forms: {files}. They may be of different releases. Leave one of the "
        "forms there."
    )
    E124 = (
        "No row of {file} passes the filters: {filters}. It has the languages {languages} and the sources {sources}. "
        "Values are matched exactly, case included."
    )
    E125 = "{file} names no {what} {value!r}. Those it has are: {found}. Values are matched exactly, case included."
    E126 = (
        "{file} has an atom {name!r} of a concept with the id {id!r}, which is empty or holds white space or a control "
        "character. Correct the line, or set errors = 'skip' to have such lines counted."
    )
    E140 = (
        "Can't write the {what} {value!r:.80} of the concept '{id}' in Rich Release Format: fields end at '|' and rows "
        "at a line end there, and neither can be escaped. Correct it in the source, or call `write_rrf(..., "
        "unwritable='replace')`, which replaces them in texts (not in ids, languages, sources and types)."
    )
    E141 = (
        "Can't write this terminology in Rich Release Format: {n} {reason}, the first being {example}. Reading "
        "it back would give another terminology. Correct it where the terminology is made: TerminologyBuilder keeps "
        "languages and sources as they are given."
    )
    E142 = "There is nothing to merge: no terminology was given. Pass one or more."
    E150 = "Can't remove these {what}: {reason}"
    E151 = "The concept '{id}' has no name {name!r} to remove. It has: {names}. Names are matched exactly."
    E152 = "The concept '{id}' would be left without names. Use `remove_concepts` to remove it altogether."
    E127 = "{path} is a folder, and this reader reads one file. Give the path of the file in it."
    E129 = MISSING_FILE + " Copy the file there, or set errors = 'skip' to go on without it."

    # E2xx: encoder
    E203 = (
        "pad_to_length is {pad} but max_length is {length}: strings would be longer than their padding. Set "
        "pad_to_length to max_length or more, or leave it unset."
    )
    E204 = (
        "attention_mask is off but pad_to_length is not set, so a string's vector would depend on its batch. Set "
        "pad_to_length to the length that the checkpoint was trained with (32 for the released CODER)."
    )
    E205 = (
        "Unknown encoder settings: {names}. The encoder was probably saved by a newer version of spacy-sapbert: "
        "upgrade with `pip install -U spacy-sapbert`."
    )
    E206 = (
        "There is no device '{name}'. PyTorch {version} can use: {there}. Set `device` to one of these, or to 'auto'; "
        "for a saved pipeline, with `spacy.load(path, config={{'components.sapbert_linker.model.device': 'auto'}})` "
        "(in a reranker, `second_stage.device`). If the machine has such a GPU, its driver is missing, or PyTorch is a "
        "build for the CPU."
    )
    E210 = (
        "Can't read an encoder from '{name}': {reason}\nIf it is a folder, check the path (relative paths start at the "
        "working directory); if it is a Hugging Face name, check its spelling, the revision and the network."
    )
    E211 = (
        "The encoder '{name}' lacks {n} weights ({keys}, ...), which would stay random and give meaningless vectors. "
        "It was probably saved from another architecture than its config.json names."
    )
    E212 = (
        "pooling is 'pooler', but the encoder '{name}' has no trained pooler, so its vectors would be random. Use "
        "'cls' or 'mean'."
    )
    E213 = (
        "The encoder '{name}' has only a slow tokenizer ({tokenizer}). Save it with a fast one (tokenizer.json), for "
        "example with `AutoTokenizer.from_pretrained(..., use_fast=True).save_pretrained(...)`."
    )
    E214 = (
        "The encoder '{name}' takes {limit} tokens at most, but {length} were asked for. Lower max_length or "
        "pad_to_length."
    )
    E215 = (
        "'{name}' is a sentence-transformers folder with modules that a name encoder does not have: {modules}. Leaving "
        "them out would give other vectors than the model was trained for. Use an encoder without them."
    )
    E216 = (
        "The sentence-transformers folder '{name}' pools by: {found}. Supported are exactly one of cls and mean; set "
        "`pooling` and remove modules.json from a copy of the folder if you know better."
    )
    E217 = (
        "A {expected} encoder is needed here, but this is a {found} encoder. Training and `source` need a transformer, "
        "and 'spacy-sapbert.StaticEncoder.v1' a static encoder; 'spacy-sapbert.NameEncoder.v1' takes all."
    )
    E218 = "Can't make a static encoder: {reason}. Give a tokenizer and one row of finite numbers for each of its ids."
    E219 = (
        "The encoder is a transformer with an adapter, but the package `adapters` can't be imported: {reason}\nInstall "
        "it with `pip install -c constraints.txt '.[adapters]'` in the folder of the checkout."
    )
    E220 = (
        "The name encoder has no weights yet. Call the linker's `initialize(terminology=..., encoder=...)`, build the "
        "pipeline from a config with `spacy assemble`, or load a saved one with `spacy.load`."
    )
    E221 = (
        "The name encoder can't be trained with `nlp.update`. Train it outside of spaCy, then load the resulting "
        "folder at `nlp.initialize`."
    )
    E222 = "The model '{name}' is not a name encoder. Use the architecture 'spacy-sapbert.NameEncoder.v1'."

    # E3xx: index
    E301 = "The index is empty. Call the linker's `initialize(terminology=..., encoder=...)`, or load a saved pipeline."
    E302 = (
        "Can't build an index from vectors of shape {shape}. Pass at least one row, as an array of shape (rows, width)."
    )
    E303 = (
        "Can't search with queries of shape {shape}: the index takes one or more rows of width {width}. If the width "
        "differs, the queries come from another encoder than the index."
    )
    E304 = "k is {k}, but at least one neighbour has to be asked for."
    E305 = (
        "'{path}' holds an index of the kind '{found}', not '{expected}'. Set the index in the config to the kind that "
        "was saved."
    )
    E306 = (
        "{n} vectors are not finite, the first in row {row}. The encoder's weights are damaged, or overflow in this "
        "precision: try precision = 'fp32'."
    )
    E308 = (
        "{package} can't be imported: {reason}\nScaNN needs Linux and a processor with AVX2; usearch runs on all "
        "systems. Use the index 'spacy-sapbert.UsearchIndex.v1' or 'spacy-sapbert.ExactIndex.v1'."
    )
    E330 = (
        "Can't add vectors of shape {shape} to an index with rows of width {width}. They probably come from another "
        "encoder."
    )

    # E4xx: linker, abbreviations and scoring
    E401 = (
        "The linker '{name}' has no concepts yet. Call `nlp.get_pipe('{name}').initialize(terminology=..., "
        "encoder=...)`, build the pipeline from a config with `spacy assemble`, or load a saved one with `spacy.load`."
    )
    E402 = (
        "The index of the linker '{name}' was built with another encoder (fingerprint {index}...) than the one loaded "
        "({encoder}...), so its neighbours would be meaningless. It was replaced, or its pooling or length was set "
        "otherwise. Put the original encoder and settings back, or call "
        "`nlp.get_pipe('{name}').initialize(encoder=...)`, which encodes all names again."
    )
    E403 = (
        "The linker '{name}' can't be initialized without {what}. Set [initialize.components.{name}.{key}] in the "
        'config, for example with @misc = "{example}", or pass `{key}=` to `initialize`.'
    )
    E404 = "The setting {name}{where} is {value!r}, but has to be {allowed}."
    E405 = (
        "The setting {key} of the linker '{name}' is of the type {found}, but has to be {expected}. From a path, "
        "`spacy_sapbert.read_obo(path)` and its siblings make a terminology."
    )
    E406 = "There is no setting {name}{where}.{hint} There are: {known}."
    E407 = "The setting {name}{where} is missing, and has no default."
    E410 = (
        "None of the {n} names can be encoded: the encoder's vocabulary knows no token of any of them. The encoder is "
        "for another language or script than the terminology."
    )
    E412 = (
        "The index in '{path}' is not the one that was saved with {saved_with}, so its rows would point to wrong "
        "concepts. Save the pipeline again or reinstall its package."
    )
    E430 = (
        "The filter {key} allows {unknown}, which no concept or name of the terminology has, so it would allow less "
        "than it says. Values are compared exactly, case included. The terminology has {n} {what}: {examples}."
    )
    E431 = (
        "No concept of the terminology has a code in '{source}', which output_source asks for. A code's source is what "
        "stands before its first colon, compared exactly. The terminology has codes in {n} sources: {examples}."
    )
    E432 = "`find` takes a list of strings to look up, not {found}. Pass [text] for a single one."
    E434 = (
        "`below` asks for the descendants of concepts, but none of the terminology's {n} concepts has a parent there. "
        "Read it from a source with a hierarchy (OBO, or RRF with MRREL), or use `ids`."
    )
    E440 = (
        "{found}, but names have to be a list of pairs of the concept's id and the name, as in "
        '[("C0009443", "head cold")]. `add_names` takes a Terminology as well, with types, definitions and languages.'
    )
    E441 = "`{function}` takes a list of {what}, but {found}. Pass a list for a single one as well."
    E442 = "{what} is {path!r}, {reason}. Give the path of a folder, which is made if it is missing."

    E450 = (
        "The reranker '{name}' has nothing to learn or decide from: {reason}. Call `nlp.initialize(get_examples)` with "
        "documents whose entities have `kb_id_`, use `spacy train`, or load a saved pipeline."
    )
    E451 = "The reranker '{name}' can't decide here: {reason}. Use what it was trained with, or train it again."
    E453 = (
        "A document has reached the reranker '{name}' without having been linked by '{linker}' in this process. Put "
        "this linker before it, enabled, by this name (setting `linkers`). In `spacy train`, list it, and what it "
        "needs, in [training] annotating_components."
    )
    E452 = (
        "The network of the reranker '{name}' gives scores that are not finite: its weights are damaged, or training "
        "has diverged. Load a saved pipeline again, or train it with a lower learn_rate."
    )
    E454 = "The loss of the reranker '{name}' is {loss}. Lower {what}."

    E460 = (
        "The matcher '{name}' finds no names: {reason}. It takes them from a linker in the same pipeline, which its "
        "setting `linker` names. The pipeline has: {found}."
    )
    E461 = (
        "With matches = 'all', names may overlap, which entities can't. Set `spans_key` as well, to write them to a "
        "group of `doc.spans`, or keep 'longest'."
    )
    E463 = (
        "There is no component '{name}' in {path}. Give the folder that `nlp.to_disk` has written, and the name of the "
        "linker in that pipeline."
    )

    # E5xx and E6xx: saved pipelines, terminologies and training data, lists of checksums
    E501 = (
        "Can't read '{path}': {reason}. The file is damaged; write it again (save the pipeline, or run the command "
        "that made it), or reinstall its package."
    )
    E502 = (
        "'{path}' has format {found}, this version of spacy-sapbert reads format {expected}. Install the version that "
        "the pipeline's meta.json asks for, or build the pipeline again."
    )
    E503 = (
        "'{path}' is missing. The copy or the download is incomplete; write it again (save the pipeline, or run the "
        "command that made it), or reinstall its package."
    )
    E504 = (
        "'{path}' is not the file that was saved: it is truncated, damaged or from another run. What is made with it "
        "could be wrong, so it is not loaded. Write it again (save the pipeline, or run the command that made it), or "
        "reinstall its package."
    )
    E505 = "Can't unpack these bytes: {reason}. Pass what `to_bytes` returned, complete and unchanged."

    E607 = (
        "'{file}' in {folder} is not the file that {path} lists: its SHA-256 is {found}, not {expected}. The download "
        "is damaged, or it is another release. Fetch it again, or correct the list."
    )
    E608 = (
        "The list of checksums {path} does not name all files that were read: {files} is missing. It belongs to "
        "another folder, is out of date, or is not in the form that `sha256sum` writes."
    )
