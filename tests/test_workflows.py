"""Jobs of the hosting page run what ``.ci/run`` runs here, and hooks before a commit what ``make lint`` runs."""

import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
}
SYSTEMS = ["ubuntu-latest", "macos-latest", "windows-latest"]


def jobs(workflow: str) -> dict[str, dict]:
    return WORKFLOWS[workflow]["jobs"]


def steps(workflow: str) -> list[dict]:
    return [step for job in jobs(workflow).values() for step in job.get("steps", [])]


def commands(workflow: str) -> list[str]:
    return [line for step in steps(workflow) if "run" in step for line in step["run"].splitlines()]


def ci_lines() -> list[str]:
    """Return the lines of ``.ci/run`` that do something: make targets and scripts."""
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.startswith(("make ", ".ci/"))]


def targets(line: str) -> list[str]:
    """Return what a line asks make for."""
    return [word for word in shlex.split(line)[1:] if "=" not in word]


def ci_run() -> set[str]:
    """Return what ``.ci/run`` runs, one target at a time, after everything is installed."""
    made = {target for line in ci_lines() if line.startswith("make ") for target in targets(line)}
    scripts = {line for line in ci_lines() if line.startswith(".ci/")}
    return {f"make {target}" for target in made - {".venv/ci"}} | scripts


def recipe(target: str) -> list[str]:
    found = re.search(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found, f"The Makefile has no target {target}."
    return [line.strip() for line in found[1].splitlines()]


ALL = sorted({line for workflow in WORKFLOWS for line in commands(workflow)} | set(ci_lines()))


@pytest.mark.parametrize("line", ALL)
def test_a_job_runs_a_make_target_or_a_script_of_the_repository(line):
    program = shlex.split(line)[0]
    if program == "make":
        assert targets(line)
        for target in targets(line):
            assert recipe(target)
    else:
        assert program.startswith(".ci/")
        assert (ROOT / program).read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
        assert os.name == "nt" or (ROOT / program).stat().st_mode & 0o100  # it can be run


def test_every_change_is_checked_by_what_runs_here():
    assert ci_run() <= set(commands("check"))


def test_nothing_but_the_lowest_versions_is_checked_there_alone():
    assert set(commands("check")) - ci_run() == {"make test-lowest"}


def test_targets_that_run_at_once_find_all_installed():
    """Two installations into one environment at the same time would spoil it."""
    first, *rest = ci_lines()
    assert first == "make .venv/ci"
    (line,) = (line for line in rest if "--jobs" in line)
    (groups,) = re.findall(r"^CI_GROUPS := (.*)$", MAKEFILE, re.MULTILINE)
    ready = {".venv/core", *(f".venv/{group}" for group in groups.split())}
    asked = targets(line)
    for target in asked:  # which grows: what a target needs needs something itself
        (needs,) = re.findall(rf"^{re.escape(target)}:([^#\n]*)", MAKEFILE, re.MULTILINE)
        asked.extend(need for need in needs.split() if need not in ready)
        assert not target.startswith(".venv")
    assert {"docs", "wheel", "dist", "lint"} <= set(asked)


def test_tests_run_on_three_systems_and_three_versions_of_python():
    assert jobs("check")["test"]["strategy"]["matrix"] == {"system": SYSTEMS, "python": ["3.11", "3.12", "3.13"]}
    for workflow, job in (("check", "test"), ("check", "lowest"), ("weekly", "newest")):
        assert jobs(workflow)[job]["strategy"]["matrix"]["system"] == SYSTEMS
        assert jobs(workflow)[job]["runs-on"] == "${{ matrix.system }}"


def test_the_versions_of_python_are_those_that_the_package_declares():
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert jobs("check")["test"]["strategy"]["matrix"]["python"] == declared


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_actions_are_pinned_by_commit_and_say_their_version(workflow):
    text = (ROOT / ".github/workflows" / f"{workflow}.yml").read_text(encoding="utf-8")
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    for name in used:
        assert re.search(rf"uses: {re.escape(name)}  # v\d+\.\d+\.\d+$", text, re.MULTILINE)
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_jobs_may_read_and_nothing_else_but_for_the_one_that_publishes(workflow):
    assert WORKFLOWS[workflow]["permissions"] == {"contents": "read"}
    writing = {name for name, job in jobs(workflow).items() if "permissions" in job}
    assert writing == ({"publish"} if workflow == "release" else set())


def test_a_release_publishes_the_wheel_that_ran_the_readme():
    release = jobs("release")
    assert release["check"]["uses"] == "./.github/workflows/check.yml"
    assert release["check"]["needs"] == "tag"
    assert release["publish"]["needs"] == "check"
    kept = [step["with"]["name"] for step in jobs("check")["wheel"]["steps"] if "upload" in step.get("uses", "")]
    taken = [step["with"]["name"] for step in release["publish"]["steps"] if "download" in step.get("uses", "")]
    assert kept == taken == ["dist"]
    assert any(".ci/readme.py README.md" in line for line in recipe("wheel"))


def test_hooks_before_a_commit_are_those_of_make_lint():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    entries = [hook["entry"] for repository in hooks for hook in repository["hooks"]]
    options = r"( --fix| --force-exclude| --check| \.)"
    hooked = {re.sub(options, "", entry).removeprefix(".venv/bin/") for entry in entries}
    linted = {re.sub(options, "", line).removeprefix("$(BIN)/") for line in recipe("lint")}
    assert hooked == linted
