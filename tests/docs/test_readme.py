"""The script that runs the README in a bare environment: what it runs, and that it notices what is wrong."""

import runpy
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
script = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci/readme.py")))

ABSENT = """
kept = [1]
raise ImportError("This needs zugzwang: pip install 'tempograd[chess]'.")  # needs zugzwang
kept.append(2)  # and the rest still runs
"""


def test_all_python_and_all_commands_of_the_readme_run():
    kinds = [kind for kind, _ in script.blocks(README)]
    assert kinds == ["python", "python", "sh"]
    assert README.count("```python\n") == 2
    typed = [line for kind, code in script.blocks(README) if kind == "sh" for line in code.splitlines()]
    assert [line.split()[:2] for line in typed] == [
        ["tempograd", name] for name in ("explain", "explain", "evaluate", "report")
    ]
    assert README.count("\ntempograd ") == len(typed) + 1  # and the sentence that says what tempograd does


def test_a_statement_that_lacks_a_package_must_say_what_to_install():
    names = {}
    assert script.run_python(ABSENT, names) == 1
    assert names["kept"] == [1, 2]
    with pytest.raises(ImportError, match="gone"):
        script.run_python(ABSENT.replace("This needs zugzwang", "gone"), {})
    with pytest.raises(SystemExit, match="ran without zugzwang"):
        script.run_python("x = 1  # needs zugzwang\n", {})


def test_what_is_there_must_work():
    with pytest.raises(ImportError, match="zugzwang"):
        script.run_python(ABSENT.replace("# needs zugzwang", "# needs pytest"), {})
    with pytest.raises(ZeroDivisionError):
        script.run_python("1 / 0\n", {})


def test_an_environment_with_more_than_the_wheel_is_refused(monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match=r"not bare: it has .*matplotlib"):
        script.require_bare(tmp_path)
    monkeypatch.setitem(script.require_bare.__globals__, "EXTRAS", ())
    with pytest.raises(SystemExit, match="not installed in"):  # but from a folder of sources
        script.require_bare(tmp_path)


def test_the_short_way_changes_every_block_that_trains():
    for kind, code in script.blocks(README):
        assert kind == "sh" or ("tg.train(" in code) == ("epochs=1" in script.shortened(code))


def test_the_commands_find_what_they_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = script.HEAD.search(README)[1]
    script.prepare(head)
    typed = [word for kind, code in script.blocks(README) if kind == "sh" for word in code.split()]
    given = {word for option, word in pairwise(typed) if option in {"--weights", "--data"}}
    assert given == {"net.safetensors", "sensors.csv"} <= set(map(str, Path().iterdir()))
    assert Path("sensors.csv").read_text(encoding="utf-8").startswith(f"{head}\n")
