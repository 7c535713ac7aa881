"""What a machine cannot run is left out visibly, and nothing else is."""

from __future__ import annotations

import sys
from pathlib import Path

import httpcore  # noqa: F401 (see below)
import pytest

from tests.cluster import recipes

pytest_plugins = ["pytester"]
# pytester forgets the modules that a run inside of this process imported. httpx imports httpcore when it is first used,
# and would then not know the errors of a second httpcore.

REPOSITORY = Path(__file__).parents[2]

TESTS = """
    import pytest

    def test_store(etcd): ...
    def test_topic(kafka_topic): ...
    def test_topic_again(kafka): ...
    def test_both(kafka, etcd): ...
    def test_neither(): ...
"""


@pytest.fixture
def bare_machine(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that loads the plugin, on a machine with nothing on PATH and nothing built."""
    monkeypatch.setenv("PATH", str(pytester.mkdir("bin")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.mkdir("cache")))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.delenv("CI", raising=False)
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nmarkers =\n  go\n  java\n  image"
    )
    pytester.makepyfile(TESTS)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "tests.cluster.plugin", "-p", "no:cacheprovider", *arguments)


def put_on_path(project: pytest.Pytester, program: str, script: str) -> None:
    file = project.path / "bin" / program
    file.write_text(f"#!{sys.executable}\n{script}\n")
    file.chmod(0o755)


def test_missing_toolchains_leave_out_their_groups_and_say_so(bare_machine: pytest.Pytester) -> None:
    result = run(bare_machine)

    result.assert_outcomes(passed=1, skipped=4)
    result.stdout.fnmatch_lines_random(
        ["left out: go (no go on PATH): 2 tests", "left out: java (no java or mvn on PATH): 3 tests"]
    )
    assert result.ret == pytest.ExitCode.OK


def test_in_ci_leaving_a_group_out_is_a_failure(bare_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    result = run(bare_machine)

    result.assert_outcomes(passed=1, skipped=4)
    result.stdout.fnmatch_lines(["CI is set, and in CI leaving tests out is a failure."])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_in_ci_a_container_that_cannot_run_is_no_failure(
    bare_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    bare_machine.makepyfile("def test_image(image_base_build): ...")

    result = run(bare_machine, "-m", "image")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["left out: image (no buildah, runc, mmdebstrap on PATH): 1 test"])
    result.stdout.no_fnmatch_line("CI is set*")
    assert result.ret == pytest.ExitCode.OK


def test_a_test_that_asks_while_it_runs_says_so_by_mark(bare_machine: pytest.Pytester) -> None:
    bare_machine.makepyfile("""
        import pytest

        @pytest.mark.parametrize("server", [
            pytest.param("kafka", marks=pytest.mark.java), pytest.param("etcd", marks=pytest.mark.go("etcd"))
        ])
        def test_marked(request, server):
            request.getfixturevalue(server)

        def test_unmarked(request):
            request.getfixturevalue("kafka")
    """)

    result = run(bare_machine)

    result.assert_outcomes(skipped=2, failed=1)
    result.stdout.fnmatch_lines(['*mark the test with pytest.mark.java("kafka"): it needs that'])


@pytest.mark.parametrize(
    ("program", "answer", "chosen", "said"),
    [
        ("java", 'openjdk version "11.0.2"', "topic", "left out: java (java is 11, Kafka needs 17): 2 tests"),
        ("go", "go: go.mod requires go >= 1.26.0", "store", "left out: go (go: go.mod requires go >= 1.26.0): 1 test"),
    ],
)
def test_a_toolchain_that_is_too_old_is_as_good_as_none(
    bare_machine: pytest.Pytester, program: str, answer: str, chosen: str, said: str
) -> None:
    put_on_path(bare_machine, program, f"import sys; print({answer!r}, file=sys.stderr); sys.exit({program == 'go'})")

    run(bare_machine, "-k", chosen).stdout.fnmatch_lines([said])


def test_a_failed_build_fails_its_tests_with_the_compilers_words(bare_machine: pytest.Pytester) -> None:
    put_on_path(bare_machine, "go", "import sys; sys.exit(sys.argv[1] == 'build' and 'etcd.go:1: syntax error')")

    result = run(bare_machine, "-k", "store or neither")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*etcd * could not be built: *", "etcd.go:1: syntax error"])
    assert not list((bare_machine.path / "cache").rglob("*partial*"))


def test_what_was_built_before_needs_no_compiler(bare_machine: pytest.Pytester, etcd_build: Path) -> None:
    cache = bare_machine.path / "cache" / "kubedelta-testbed"
    cache.mkdir()
    (cache / recipes.ETCD.folder_name).symlink_to(etcd_build)

    result = run(bare_machine, "-k", "store")

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*left out*")
