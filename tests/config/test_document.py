from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.document import parse, plain, read
from config.errors import ConfigError


def _refused(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse(text, "f.yaml")
    return [str(problem) for problem in refused.value.problems]


def test_every_value_knows_its_line() -> None:
    document = parse("a:\n  b:\n    - x\n    - {c: 1}\n", "f.yaml")
    assert document.data == {"a": {"b": ["x", {"c": 1}]}}
    assert document.source(("a", "b", 1, "c")) == "f.yaml:4"


def test_a_missing_value_is_reported_where_it_should_stand() -> None:
    document = parse("a:\n  b: 1\n", "f.yaml")
    assert document.source(("a", "z", "y")) == "f.yaml:1"
    assert document.source(("z",)) == "f.yaml"


def test_a_duplicate_key_is_reported_at_its_second_line() -> None:
    document = parse("a:\n  b: 1\n  b: 2\na: 3\n", "f.yaml")
    assert document.data == {"a": {"b": 1}}
    assert [str(problem) for problem in document.problems] == [
        "f.yaml:3: a.b: given twice; it is already set in line 2",
        "f.yaml:4: a: given twice; it is already set in line 1",
    ]


def test_keys_are_text() -> None:
    document = parse("a: {1: x, true: y, [z]: w, b: c}\n", "f.yaml")
    assert document.data == {"a": {"b": "c"}}
    assert [problem.message for problem in document.problems] == [
        "found 1 as a key; keys are text",
        "found true as a key; keys are text",
        "found a list or a mapping as a key; keys are text",
    ]


def test_words_and_numbers_are_what_json_takes_them_for() -> None:
    text = "[on, yes, no, 2026-01-02, 12:30:45, 010, 0x1f, 1_000, .inf, true, null, ~, 12, -0.5, 1e3]"
    assert plain(text, "X") == [
        "on", "yes", "no", "2026-01-02", "12:30:45", "010", "0x1f", "1_000", ".inf", True, None, None, 12, -0.5, 1000.0
    ]  # fmt: skip


def test_an_anchor_may_be_used_again_and_merged() -> None:
    document = parse("x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\nz: *x\n", "f.yaml")
    assert document.data == {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}, "z": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "f.yaml:1:6: not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n b: 2\n", "f.yaml:2:3: not YAML: mapping values are not allowed here"),
        ("a: *x", "f.yaml:1:4: not YAML: found undefined alias 'x'"),
        ("a: 1\n---\nb: 1\n", "f.yaml:2:1: not YAML: expected a single document in the stream"),
        ("a: &a\n  b: *a\n", "f.yaml:1: a.b: an anchor that contains itself"),
        ("a: !!python/name:os.system x", "f.yaml:1: a: found the tag tag:yaml.org,2002:python/name:os.system"),
        ("a: !!int x", "f.yaml: not YAML that can be read"),
        ("a: !!bool x", "f.yaml: not YAML that can be read"),
        ("a: !!int ''", "f.yaml: not YAML that can be read"),
        ("a: \x07", "f.yaml: not text: special characters are not allowed at position 3"),
        (b"a: \xff\xfe", "f.yaml: not text: "),
        ("a: !!int " + "9" * 5000, "f.yaml: not YAML that can be read"),
        ("", "f.yaml: is empty"),
        ("# nothing\n", "f.yaml: is empty"),
        ("- pods\n", "f.yaml: found a list or a single value"),
        ("just a word", "f.yaml: found a list or a single value"),
    ],
)
def test_what_is_not_a_mapping_in_yaml_is_refused_with_its_place(text: str | bytes, said: str) -> None:
    [problem] = _refused(text)
    assert problem.startswith(said)


_TEN_EACH = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 20))
_MERGED_TEN_EACH = _TEN_EACH.replace("[", "{<<: [").replace("]\n", "]}\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: " + "[" * 5000, "nested deeper than 64 levels", id="brackets"),
        pytest.param("a: " + '{"a": ' * 5000, "nested deeper than 64 levels", id="braces"),
        pytest.param("a:\n  " + "- " * 5000, "nested deeper than 64 levels", id="dashes"),
        pytest.param("a: &a0 [x]\n" + _TEN_EACH, "more than 20000 values, counting what aliases", id="aliases"),
        pytest.param("a: &a0 {x: 1}\n" + _MERGED_TEN_EACH, "more than 20000 values, counting what", id="merges"),
        pytest.param("a:\n" + "- x\n" * 250_000, "more than 20000 values", id="values"),
    ],
)
def test_a_file_that_would_delay_the_start_is_refused_at_once(text: str, said: str) -> None:
    """Without bounds each of these takes minutes, or all memory."""
    [problem] = _refused(text)
    assert said in problem


def test_lists_and_mappings_nest_far_deeper_than_any_option() -> None:
    assert parse("a: " + "[" * 60 + "]" * 60, "f.yaml").problems == ()


def test_a_file_larger_than_a_mebibyte_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    with file.open("wb") as opened:
        opened.truncate(100 << 30)  # sparse: no disk has to have it
    with pytest.raises(ConfigError, match=r"is larger than 1MiB, and a configuration is not: is this the right file?"):
        read(file)


def test_a_syntax_error_does_not_quote_the_line_it_stands_in() -> None:
    [problem] = _refused("sinks:\n  a: {password: hunter2, topic: [}\n")
    assert "hunter2" not in problem


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "no.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=f"{path}: cannot be read: {reason}"):
            read(path)


@given(
    st.dictionaries(st.text(st.characters(exclude_characters="\x7f"), min_size=1), st.text(), min_size=1, max_size=3)
)
def test_a_json_file_is_read_as_json(data: dict[str, str]) -> None:
    """Its writer escapes what is not ASCII: beyond U+FFFF as a surrogate pair."""
    assert parse(json.dumps(data), "f.json").data == data


@pytest.mark.parametrize(
    "text", ['{"a": "\\ud83d"}', '{"\\ude00": 1}', 'a: ["\\ude00\\ud83d"]', '{"a": "\\ud83dx\\ude00"}']
)
def test_half_of_a_surrogate_pair_is_named_with_its_place(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "f.json")

    [problem] = error.value.problems
    assert problem.source.startswith("f.json:1:")
    assert "half of a surrogate pair" in problem.message
    assert str(error.value).encode()
