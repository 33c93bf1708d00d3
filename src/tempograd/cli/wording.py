"""What the library says in Python's words, in those of the command line."""

import re

OWN = (
    "n_samples",
    "n_steps",
    "tolerance",
    "draws",
)  # settings that verdicts advise, which have options of their own
OPTIONS = (
    *("target", "targets", "task", "output", "baseline", "background", "steps", "seed", "pick", "model_layout"),
    *("missing", "classes", "channels", "units", "raw", "fixed", "inputs", "id", "time", "label", "variable"),
    *("value", "format", "align", "weights", "of", "k", "metric", "metrics", "budget", "method", "limit", *OWN),
    *("keep", "shape", "cells", "engine", "workers", "batch", "fragment", "max_faults"),
)
NAMES = "|".join(sorted(OPTIONS, key=len, reverse=True))
PHRASES = {  # what is no option of a command, or is said in another way there
    " or label= (--id, --label), else choose channels=": " or --label, else choose --channels",
    "pass trust=True": "pass --trust",
    "pass force=True": "pass --force",
    "target=tempograd.targets.mean()": "--target mean",
    "target=tempograd.targets.reconstruction() for their error, ": "",
    "swap its axes, or pass layout='BDT' to tempograd.explain": "swap its axes",
    "pass layout='BDT'": "write the file as (series, time, channel)",
    "call fit(model, series), or pass background= to tempograd.explain": "pass --background",
    "write explainer = explainer.fit(model, series), which returns a new one, or pass background= to "
    "tempograd.explain": "pass --background",
    "pass tempograd.Series(x, mask='nan')": "pass --missing mask",
    "pass mask='nan', or a mask that is 0 there": "write 0 there in the array mask",
    "pass mask= with 0": "write an array mask with 0",
    "cells that mask= leaves": "cells that mask leaves",
    "steps= or mask= leave": "--steps or missing values leave",
    "write x[None] for a single series, x[..., None] for a single channel": "a single series or channel needs "
    "its axis too",
    "write x.float(), or x.astype('float32') of an array": "write it as float32",
    "pass truth=": "pass --data with an array truth",
    "steps=None": "no --steps",
    ", or pass grid= with settings of your own": "",
    ", or fewer settings as grid=": "",
    "pass grid= with others, or give fewer settings": "give fewer settings",
    "must be True or False": "must be true or false",
    "tempograd.load_model": "--model",
    "explain another target with tempograd.explain": "explain another target",
    "with x=, id= (id=None where there is none), mask= and keep=": "with --x, --id (none where there is none), "
    "--mask and --keep",
    "open_run(…).faults() tells why": "'tempograd runs FOLDER' tells why",
    "or explain one group of series with tempograd.explain": "or explain one file, --out E.safetensors",
    "shape=(time, channel)": "--shape STEPS,CHANNELS",
    "that tempograd.explain_dataset wrote": "that 'tempograd explain --out FOLDER/' wrote",
    "open_run(…).failures() tells more": "'tempograd runs FOLDER' tells more",
    "start the same call again": "start the same command again",
    "max_faults must": "--max-faults must",
    "pass series.padded()": "pass --lengths padded",
    "The series of the explanation are not in split: pass the split that was explained, and explain with "
    "ids=split.ids where only some of its series are": "--data holds other series than were explained: pass "
    "those, with the same options (--split, --id, --time, --channels, …)",
}


def as_typed(message: str) -> str:
    """Return a sentence with options instead of arguments.

    Examples
    --------
    >>> as_typed("Pass output='raw', and target= for one of them.")
    'Pass --output raw, and --target for one of them.'
    >>> as_typed("Pass task='forecast' or 'multilabel', and target=(3, 1) for one of them.")
    'Pass --task forecast or multilabel, and --target 3,1 for one of them.'
    >>> as_typed("pass n_samples=170 for 10 %, or tolerance=0.1; pass rule='midpoint'")
    'pass --n-samples 170 for 10 %, or --tolerance 0.1; pass --set rule=midpoint'
    >>> as_typed("pass align='order' (--align order) where rows are in order of time (--time)")
    'pass --align order where rows are in order of time (--time)'
    """
    message = re.sub(r"(pass|or) (\w+)=(?:'\w+')? \((--\2(?: \w+)?)\)", r"\1 \3", message)
    for words, others in PHRASES.items():
        message = message.replace(words, others)
    message = re.sub(rf"(?<![\w-])({NAMES})='(\w+)'((?: or '\w+')?)", _with_word, message)
    message = re.sub(rf"(?:--set )?(?<![\w-])({'|'.join(OWN)})=([0-9][0-9.e+-]*[0-9]|[0-9])", _with_value, message)
    message = re.sub(rf"(?<![\w-])({NAMES})=\(?(\d+(?:, \d+)*)\)?", _with_value, message)
    message = re.sub(rf"(?<![\w-])({NAMES})=(?=[ ,.;:)]|$)", lambda found: _option(found[1]), message)
    message = re.sub(r"\btorch\.(?=u?int|b?float|bool|complex)", "", message)
    message = re.sub(r"see explanations\[(.*?)\]$", r"see --target \1", message)
    message = re.sub(r"(?<![\w-])([a-z_]{2,})=(?=[ ,.;:)]|$)", r"\1", message)  # any other setting
    return re.sub(r"\b([Pp]ass|use) ([a-z_]+)='?([\w.-]+?)'?(?=[ ,.;:)]|$)", r"\1 --set \2=\3", message)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _with_word(found: "re.Match[str]") -> str:
    return f"{_option(found[1])} {found[2]}{found[3].replace(chr(39), '')}"


def _with_value(found: "re.Match[str]") -> str:
    return f"{_option(found[1])} {found[2].replace(', ', ',')}"
