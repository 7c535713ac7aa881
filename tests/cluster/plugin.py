"""Marks the tests that need real servers, builds those before the first test, and says what it left out.

A test that uses a fixture of the testbed belongs to the group of its toolchain, `go` or `java`, without saying so.
Where the toolchain is missing the group is skipped, and the end of the run says so. In CI that is a failure: there
nobody reads. The group `image` is no failure even there: it needs root.

What a test will ask `getfixturevalue` for cannot be known before it runs, so it says so by mark: `pytest.mark.java`, or
`pytest.mark.go("etcd")` for less than the whole group.

`pytest --servers -m "go or java"` imports only the files that `server_tests` in pyproject.toml names: to import all
takes longer than most tests do. Any run fails where such a test stands elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import recipes
from tests.cluster.build import BuildFailed, Built, Outcome, ToolchainMissing, provide, toolchain_missing
from tests.cluster.recipes import Group, Recipe
from tests.cluster.servers.class_archive import share_classes

pytest_plugins = ["tests.cluster.fixtures"]

RECIPE_OF_FIXTURE = {
    "connect_build": recipes.CONNECT,
    "etcd_build": recipes.ETCD,
    "kubernetes_build": recipes.KUBERNETES,
    "flink_build": recipes.FLINK,
    "kafka_build": recipes.KAFKA,
    "promtool_build": recipes.PROMTOOL,
    "helm_build": recipes.HELM,
    "image_base_build": recipes.IMAGE_BASE,
    "prometheus_operator_build": recipes.PROMETHEUS_OPERATOR,
    "otel_collector_build": recipes.OTEL_COLLECTOR,
    "victoria_logs_build": recipes.VICTORIA_LOGS,
    "registry_build": recipes.REGISTRY,
}
"""The fixtures for the folders of builds. A test that has one among its fixtures, or its fixtures' fixtures, needs what
the recipe makes."""

NEEDS = pytest.StashKey[list[Recipe]]()
"""On a test: the recipes it needs."""

OUTCOMES = pytest.StashKey[dict[Recipe, Outcome]]()
"""What became of each recipe that a test needs. Filled before the first test."""

LEFT_OUT = pytest.StashKey[Counter[ToolchainMissing]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("server_tests", "files and folders that have tests of real servers", type="paths")
    parser.addoption("--servers", action="store_true", help="collect nothing but server_tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.option.servers and collection_path.is_file() and not _may_need_servers(collection_path, config):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """First of all, so that `-m go` chooses by these marks."""
    for item in items:
        needs = item.stash[NEEDS] = [*_by_fixture(item), *_by_mark(item)]
        for group in {recipe.group for recipe in needs}:
            item.add_marker(group.value)
        if needs and not _may_need_servers(item.path, config):
            raise pytest.UsageError(f"{item.nodeid} needs servers: name its file in server_tests of pyproject.toml")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Skip what this machine cannot run, of the tests that were chosen."""
    left_out = session.config.stash[LEFT_OUT] = Counter()
    missing = {recipe: toolchain_missing(recipe) for recipe in _needed(session)}
    for item in session.items:
        for what in {what for recipe in item.stash[NEEDS] if (what := missing[recipe])}:
            item.add_marker(pytest.mark.skip(reason=f"left out: {what.group} ({what.reason})"))
            left_out[what] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Build before the first test: no test's time limit covers minutes of compiling."""
    if not session.config.option.collectonly:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        say = reporter.write_line if reporter else print
        session.config.stash[OUTCOMES] = {recipe: provide(recipe, say) for recipe in _needed(session)}
    return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _must_not_leave_out(session.config.stash.get(LEFT_OUT, None)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(LEFT_OUT, None)
    if not left_out:
        return
    fails = _must_not_leave_out(left_out)
    terminalreporter.section("left out", red=fails, yellow=not fails)
    for what, tests in left_out.items():
        terminalreporter.line(f"left out: {what.group} ({what.reason}): {tests} test{'s' if tests > 1 else ''}")
    if fails:
        terminalreporter.line("CI is set, and in CI leaving tests out is a failure.", red=True)


def _may_need_servers(file: Path, config: pytest.Config) -> bool:
    places = config.getini("server_tests")
    return not places or any(file.is_relative_to(place) for place in places)


def _by_fixture(item: pytest.Item) -> list[Recipe]:
    names = getattr(item, "fixturenames", ())  # With all that its fixtures ask for; a doctest has none.
    return [recipe for fixture, recipe in RECIPE_OF_FIXTURE.items() if fixture in names]


def _by_mark(item: pytest.Item) -> list[Recipe]:
    return [
        recipe
        for recipe in recipes.ALL
        for mark in item.iter_markers(recipe.group)
        if not mark.args or recipe.name in mark.args
    ]


def _needed(session: pytest.Session) -> list[Recipe]:
    return [*dict.fromkeys(recipe for item in session.items for recipe in item.stash.get(NEEDS, ()))]


def _must_not_leave_out(left_out: Counter[ToolchainMissing] | None) -> bool:
    in_ci = os.environ.get("CI", "").lower() in {"true", "1"}
    return in_ci and any(what.group != Group.IMAGE for what in left_out or ())


def _folder_of(recipe: Recipe, config: pytest.Config) -> Path:
    match config.stash[OUTCOMES].get(recipe):
        case Built(folder=folder):
            return folder
        case BuildFailed(reason=reason):
            pytest.fail(f"{recipe.name} {recipe.version} could not be built: {reason}", pytrace=False)
        case ToolchainMissing() | None:
            # A test that reported its needs before the run would have been skipped, and counted.
            pytest.fail(f'mark the test with pytest.mark.{recipe.group}("{recipe.name}"): it needs that', pytrace=False)


def _build_of(recipe: Recipe) -> Any:
    """A fixture: the folder with what the recipe makes."""

    @pytest.fixture(scope="session")
    def build(pytestconfig: pytest.Config) -> Path:
        folder = _folder_of(recipe, pytestconfig)
        if recipe is recipes.KAFKA:
            share_classes(folder)
        return folder

    return build


globals().update({name: _build_of(recipe) for name, recipe in RECIPE_OF_FIXTURE.items()})
