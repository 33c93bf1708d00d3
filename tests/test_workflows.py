"""Jobs of the hosting page run what ``.ci/run`` runs here, from pinned actions that may read alone."""

import os
import re
import shlex
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in (ROOT / ".github/workflows").glob("*.yml")
}


def steps(workflow: str) -> list[dict]:
    return [step for job in WORKFLOWS[workflow]["jobs"].values() for step in job.get("steps", [])]


def commands(workflow: str) -> set[str]:
    return {line for step in steps(workflow) if "run" in step for line in step["run"].splitlines()}


def ci_lines() -> list[str]:
    """Return the lines of ``.ci/run`` that do something: make targets and scripts."""
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.startswith(("make ", ".ci/"))]


def targets(line: str) -> list[str]:
    """Return what a line asks make for."""
    return [word for word in shlex.split(line)[1:] if "=" not in word]


def needs(target: str) -> list[str]:
    (found,) = re.findall(rf"^{re.escape(target)}:([^#\n]*)", MAKEFILE, re.MULTILINE)
    return found.split()


def test_jobs_run_targets_and_scripts_that_are_there():
    for line in {line for workflow in WORKFLOWS for line in commands(workflow)} | set(ci_lines()):
        program = shlex.split(line)[0]
        if program == "make":
            assert [needs(target) for target in targets(line)], line
        else:
            assert os.name == "nt" or (ROOT / program).stat().st_mode & 0o100, line  # it can be run


def test_every_change_is_checked_by_what_runs_here():
    made = {f"make {target}" for line in ci_lines() if line.startswith("make ") for target in targets(line)}
    scripts = {line for line in ci_lines() if line.startswith(".ci/")}
    assert made - {"make .venv/ci"} | scripts == commands("check")


def test_targets_that_run_at_once_find_all_installed():
    """Two installations into one environment at the same time would spoil it."""
    (groups,) = re.findall(r"^CI_GROUPS := (.*)$", MAKEFILE, re.MULTILINE)
    ready = {".venv/core", *(f".venv/{group}" for group in groups.split())}
    (line,) = (line for line in ci_lines() if "--jobs" in line)
    asked = targets(line)
    for target in asked:  # which grows: what a target needs needs something itself
        asked.extend(need for need in needs(target) if need not in ready)
    assert not [target for target in asked if target.startswith(".venv")]


def test_actions_are_pinned_and_may_read_alone_but_for_the_one_that_publishes():
    for name, workflow in WORKFLOWS.items():
        used = {step["uses"] for step in steps(name) if "uses" in step}
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in used)
        assert workflow["permissions"] == {"contents": "read"}
        writing = {job for job, content in workflow["jobs"].items() if "permissions" in content}
        assert writing == ({"publish"} if name == "release" else set())


def test_a_release_publishes_what_was_checked():
    jobs = WORKFLOWS["release"]["jobs"]
    assert jobs["check"]["uses"] == "./.github/workflows/check.yml"
    assert (jobs["check"]["needs"], jobs["publish"]["needs"]) == ("tag", "check")


def test_the_versions_of_python_are_those_that_the_package_declares():
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert WORKFLOWS["check"]["jobs"]["test"]["strategy"]["matrix"]["python"] == declared
