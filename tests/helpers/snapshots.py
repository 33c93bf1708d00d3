"""Sentences that people read, kept beside the tests that hear them; only ``make snapshots`` renews them.

A test gives what was said to the fixture ``said``. All sentences of a folder stand in its ``sentences.txt``: they
can be read in one place, and every change of one is seen in a review. One that is not kept, one that nobody says
any more, and one whose test is gone are failures.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NAME = "sentences.txt"
HEAD = "What the tests of this folder heard. `make snapshots` renews it: read the difference before you commit it."
INDENT, CASE, AND = "    ", "  ", "  --"
ANEW = "`make snapshots` renews what is kept, and the difference is to be read."
REGISTERED = re.compile(  # lists that grow with every plug-in and every plan
    r"(No (?:dataset|explainer|metric|model|packaged plan) is called .* Known names: ).*"
)
Kept = dict[str, list[str]]
HEARD = pytest.StashKey[dict[Path, Kept]]()  # what tests that passed have said, by folder
TESTS = pytest.StashKey[dict[Path, set[str]]]()  # what was collected, by file
WITNESS = pytest.StashKey["Witness"]()


def read(path: Path) -> Kept:
    """Return the texts of each test, in the order in which they are said."""
    kept: Kept = {}
    test, texts = "", [""]
    for line in path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else ():
        if line and not line.startswith(" "):
            test, texts = line, kept.setdefault(line, [""])
        elif line.startswith(f"{CASE}["):
            kept.pop(test, None) if kept.get(test) == [""] else None
            texts = kept[test + line.removeprefix(CASE)] = [""]
        elif line == AND:
            texts.append("")
        else:
            texts[-1] += line.removeprefix(INDENT) + "\n"
    return {test: [text.strip("\n") for text in texts] for test, texts in kept.items()}


def write(path: Path, kept: Kept) -> None:
    """Write a heading for each test, one for each of its cases, and the texts below."""
    lines, last = [HEAD], ""
    for name, texts in sorted(kept.items()):
        test, bracket, case = name.partition("[")
        lines += ["", test] if test != last else []
        lines += [f"{CASE}[{case}"] if bracket else []
        blocks = ("\n".join(INDENT + line if line else "" for line in text.split("\n")) for text in texts)
        lines, last = [*lines, f"\n{AND}\n".join(blocks)], test
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Witness:
    """Compares what one test says with what is kept of it."""

    def __init__(self, item: pytest.Item) -> None:
        self.item, self.renew = item, item.config.getoption("renew")
        self.test, self.heard = f"{item.path.name}::{item.name}", []
        self.kept = read(item.path.with_name(NAME)).get(self.test, [])

    def __call__(self, text: object, **hidden: object) -> None:
        """Compare a text; ``FOLDER=tmp_path`` writes FOLDER where the text has that path or its end."""
        said = str(text)
        for word, found in hidden.items():
            path = str(found)
            for start in range(len(path)):  # messages shorten long paths, and how long one is differs by machine
                said = said.replace(f"…{path[start:]}" if start else path, word)
        said = REGISTERED.sub(r"\1…", said)
        said = "\n".join(line.rstrip() for line in said.splitlines()).strip("\n")
        self.heard.append(said)
        if not self.renew:
            assert len(self.heard) <= len(self.kept), f"nothing is kept of this: {said}\n{ANEW}"
            assert said == self.kept[len(self.heard) - 1], ANEW

    def refused(
        self, kind: type[Exception], call: Callable[..., object], *given: object, **options: object
    ) -> str:
        """Compare the sentence of the error that a call must raise, and return it."""
        with pytest.raises(kind) as caught:
            call(*given, **options)
        self(caught.value)
        return str(caught.value)

    def finish(self) -> None:
        if self.renew:
            self.item.config.stash[HEARD][self.item.path.parent][self.test] = self.heard
        else:
            assert len(self.heard) == len(self.kept), f"nobody says this any more: {self.kept[-1]}\n{ANEW}"


@pytest.fixture
def said(request: pytest.FixtureRequest) -> Witness:
    """Return a function that compares a text with the one kept of this test."""
    witness = request.node.stash[WITNESS] = Witness(request.node)
    return witness


@pytest.fixture
def renewing(request: pytest.FixtureRequest) -> bool:
    """Return whether what is stored is to be written anew, for tests that keep something else than text."""
    return bool(request.config.getoption("renew"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    result = yield
    if WITNESS in pyfuncitem.stash:
        pyfuncitem.stash[WITNESS].finish()
    return result


def gone(folder: Path, test: str, collected: dict[Path, set[str]]) -> bool:
    """Tell whether a test is no more; of files that were not collected as a whole, nothing is known."""
    name, _, own = test.partition("::")
    return not (folder / name).exists() or own not in collected.get(folder / name, {own})


class Leftovers(pytest.Item):
    """Fails where a folder keeps sentences of tests that are gone."""

    def runtest(self) -> None:
        collected = self.config.stash[TESTS]
        found = [test for test in read(self.path) if gone(self.path.parent, test, collected)]
        assert not found, f"{self.path.name} keeps what no test says: {', '.join(found)}\n{ANEW}"

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class Sentences(pytest.File):
    """A file of sentences, in which one thing is tested."""

    def collect(self) -> Iterator[pytest.Item]:
        yield Leftovers.from_parent(self, name="no_sentence_is_left_over")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return Sentences.from_parent(parent, path=file_path) if file_path.name == NAME else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew", action="store_true", help="write anew what tests of sentences and pictures compare with"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[HEARD] = defaultdict(dict)
    if config.getoption("renew") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--renew writes files that are shared: run it in one process, without -n.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = config.stash[TESTS] = defaultdict(set)
    for item in items:
        tests[item.path].add(item.name)
    for argument in config.args:  # a file of which a single test was asked for is not known as a whole
        if "::" in argument:
            tests.pop(Path(argument.split("::")[0]).resolve(), None)
    if config.getoption("renew"):
        chosen = [item for item in items if {"said", "renewing"} & set(getattr(item, "fixturenames", ()))]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def pytest_sessionfinish(session: pytest.Session) -> None:
    for folder, heard in session.config.stash[HEARD].items():  # nothing, unless it is renewed
        collected = session.config.stash[TESTS]
        path = folder / NAME
        there = {test: texts for test, texts in read(path).items() if not gone(folder, test, collected)}
        write(path, {test: texts for test, texts in (there | heard).items() if texts})
