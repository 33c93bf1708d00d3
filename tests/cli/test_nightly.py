"""The files of the page about nightly runs: their commands parse, and what reads events reads real ones."""

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tempograd.bulk.store import TABLES
from tempograd.cli import main, make_parser
from tempograd.cli.arguments import with_config
from tests.bulk.conftest import alone  # noqa: F401  # a fixture
from tests.cli.test_bulk_runs import EACH, EXPLAIN, FILES, planted
from tests.cli.test_bulk_runs import x as series

x = series
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "nightly"


def read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def in_cron():
    (line,) = (line for line in read("crontab").splitlines() if not line.startswith("#"))
    minute, hour, *_, command = line.split(maxsplit=5)
    assert (minute, hour) == ("0", "3")
    return shlex.split(command.split(" tempograd ")[1].split(" >>")[0])


def in_docker():
    lines = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", read("Dockerfile"), re.MULTILINE))
    assert json.loads(lines["ENTRYPOINT"]) == ["tempograd"]
    return json.loads(lines["CMD"])


def container():
    (one,) = yaml.safe_load(read("cronjob.yaml"))["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return one


def in_kubernetes():
    assert container()["command"] == ["tempograd"]
    return container()["args"]


def in_airflow():
    tree = ast.parse(read("dag.py"))
    (command,) = (
        node.value.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "COMMAND"
    )
    program, *words = shlex.split(command)
    assert program == "tempograd"
    return words


@pytest.mark.parametrize("words", [in_cron, in_docker, in_kubernetes, in_airflow])
def test_the_commands_parse_with_their_file(words):
    given = [str(FOLDER / "night.toml") if word.endswith("night.toml") else word for word in words()]
    parser = make_parser(["explain"])
    args = parser.parse_args(with_config(parser, given))
    assert (args.price, args.cells, args.keep, dict(args.settings)) == (4.0, "top", ["day"], {"segments": 5})
    assert args.out in {"explained/", "/results/explained/"}


def test_a_person_looks_where_the_page_says_so():
    """Kubernetes and Airflow try again what the page leaves to them."""
    job = yaml.safe_load(read("cronjob.yaml"))["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    job = job["jobTemplate"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["containerName"] == container()["name"]
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert f"code in {{{', '.join(map(str, rule['onExitCodes']['values']))}}}" in read("dag.py")
    page = (ROOT / "docs/howto/nightly.md").read_text(encoding="utf-8")
    for code in rule["onExitCodes"]["values"]:
        assert f"\n| {code} | " in page


def test_mounts_and_paths_agree():
    mounts = {each["mountPath"] for each in container()["volumeMounts"]}
    args = container()["args"]
    assert {args[args.index("--data") + 1], "/" + args[args.index("--out") + 1].split("/")[1]} == mounts
    assert in_docker() == args


@pytest.mark.usefixtures("alone")
def test_events_become_metrics(x):
    planted(x)
    assert main([*EXPLAIN, "--max-faults", "0.5"]) == 4
    assert main([*EXPLAIN, "--max-faults", "0.1"]) == 4
    next(Path("out/summary").iterdir()).unlink()
    assert main([*EXPLAIN, "--max-faults", "0.5"]) == 4
    with Path("out/_tempograd/events.jsonl").open("a") as file:
        file.write('{"event": "beg')  # a line that is being written
    done = subprocess.run(
        [sys.executable, "-I", FOLDER / "metrics.py", "out"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    values = {}
    for about, kind, line in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name, run, value = re.fullmatch(r'([a-z_]+)\{run="([0-9a-f]+)"\} (\S+)', line).groups()
        assert about.startswith(f"# HELP {name} ")
        assert kind == f"# TYPE {name} gauge"
        values[name.removeprefix("tempograd_")] = float(value)
    assert run == json.loads(Path("out/_tempograd/run.json").read_text())["key"]
    assert values["series_done"] == values["series"] == FILES * EACH
    assert (values["running"], values["stopped"], values["fragments_failed"]) == (0, 0, 0)
    parts = [Path("out", table) for table in TABLES]
    sizes = {sum((part / path.name).stat().st_size for part in parts) for path in parts[0].iterdir()}
    assert values["bytes_written"] in sizes
    page = (ROOT / "docs/howto/nightly.md").read_text(encoding="utf-8")
    for name in re.findall(r"\btempograd_(\w+)", page):
        assert name in values


@pytest.mark.usefixtures("x", "alone")
def test_the_page_names_every_field_of_an_event():
    assert main([*EXPLAIN, "--price", "4"]) == 0
    events = [json.loads(line) for line in Path("out/_tempograd/events.jsonl").read_text().splitlines()]
    page = (ROOT / "docs/howto/nightly.md").read_text(encoding="utf-8").split("| field |")[1].split("\n\n")[0]
    fields = set(re.findall(r"`(\w+)`", page))
    named = {name for event in events for name in event}
    assert named <= fields
    assert fields - named == {"failed", "reason", "begin", "fragment", "forecast", "end"} - named
    assert tomllib.loads(read("night.toml"))["price"] == 4
