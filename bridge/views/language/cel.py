"""CEL by ``cel-expr-python``, the binding of cel-cpp by CEL's own project. The extra ``kubedelta[cel]`` installs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from bridge.views.language.cost import (
    MOST_WORK,
    NOTHING,
    SizeOf,
    TooManyValues,
    ValueSize,
    budget,
    most,
    sizes_in,
    unbounded,
    work,
)
from bridge.views.language.expression import (
    CHANGED,
    LARGEST,
    LARGEST_OF_SMALL,
    LONGEST,
    OBJECT,
    OF_A_RECORD,
    OF_A_STEP,
    OLD_OBJECT,
    TIMES,
    EvaluationFailed,
    ExpressionProblem,
    Purpose,
    at,
    problem,
    wrong_constants,
)
from bridge.views.language.paths import PathTree, paths_of
from bridge.views.language.syntax import Node, UnknownSyntax, read_checked_expr
from bridge.views.language.values import LONG_NUMBER, NUL, TOO_DEEP, TOO_MUCH, json_value, plain, why_failed

_encode = msgspec.json.Encoder().encode
_OF_JSON = frozenset({OBJECT, OLD_OBJECT, CHANGED})
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER = b"0" * 19
"""Found where ``_ZEROS`` has made every digit a zero: a number of so many digits may have more than 64 bits."""
_EXTENSIONS = {"strings": "ExtStrings", "math": "ExtMath", "optional": "ExtOptional", "bindings": "ExtBindings"}


class MissingLibrary(Exception):
    """``cel-expr-python`` is not installed. The message names the extra."""


class Cel:
    """The language. Raises MissingLibrary where the extra is not installed."""

    def __init__(self) -> None:
        self._cel = _library()
        self._known: dict[tuple[str, Purpose], Expression] = {}

    def compile(self, text: str, purpose: Purpose) -> Expression:
        """The same value for the same text and purpose. Raises ExpressionProblem for the first mistake."""
        if (text, purpose) not in self._known:
            self._known[text, purpose] = self._compiled(text, purpose)
        return self._known[text, purpose]

    def _compiled(self, text: str, purpose: Purpose) -> Expression:
        if len(text) > LONGEST:
            raise ExpressionProblem(0, 0, f"found {len(text)} characters; at most {LONGEST} are allowed")
        names = purpose.names
        try:
            compiled = _environment(names).compile(text)
        except RuntimeError as error:
            raise problem(str(error), text, names) from error
        if (found := compiled.return_type().name().partition("<")[0]) not in (*purpose.types, "DYN"):
            raise at(text, 0, f"the value is of type {found.lower()}; expected: {purpose.expected}")
        try:
            tree = read_checked_expr(compiled.serialize())
        except UnknownSyntax as error:
            raise at(text, 0, f"the cost of the expression is not known: {error}") from error
        for offset, message in (*unbounded(tree), *wrong_constants(tree, self._why_wrong)):
            raise at(text, offset, message)
        expression = Expression(text, purpose, compiled, tree, paths_of(tree, names))
        if expression.always_takes_too_much:
            raise at(text, 0, "its evaluation takes too much time or memory, whatever the object is")
        return expression

    def _why_wrong(self, function: str, constant: str) -> str:
        """The reason why the library's function refuses a constant; empty if it does not."""
        call = f"''.{function}(op)" if function == "matches" else f"{function}(op) == {function}(op)"
        result = _environment(OF_A_STEP).compile(call).eval(data={"op": constant})
        return str(result.value()).partition(": ")[2] if result.type() == self._cel.Type.ERROR else ""


class Bound:
    """Values of an object, or of a step, for the library. It converts them when they are first read, and keeps that."""

    __slots__ = ("activation", "size", "values")

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Raises EvaluationFailed for values that the library does not take as they are."""
        try:
            encoded = _encode(values)
        except RecursionError as error:
            raise EvaluationFailed(TOO_DEEP) from error
        if (b"\\u0000" in encoded or _LONG_NUMBER in encoded.translate(_ZEROS)) and (wrong := _unfit(values)):
            raise EvaluationFailed(wrong)
        self.size = len(encoded)
        """Bytes of JSON."""
        self.values = values
        self.activation = _environment(OF_A_RECORD).Activation(values)


class Expression:
    """A compiled and checked expression, whose value is a bool for the purposes ``where`` and ``when``. Immutable."""

    bind = Bound
    """Makes the values of ``evaluate``, for all expressions of the language, by name: JSON for objects, texts for the
    other names. Names that are not used may be absent."""

    def __init__(self, text: str, purpose: Purpose, compiled: Any, tree: Node, reads: Mapping[str, PathTree]) -> None:
        self.text = text
        self.reads = reads
        """Name → the part of its value that the expression reads; absent for a name that it does not use."""
        self._purpose = purpose
        self._tree = tree
        self._eval = compiled.eval
        self._error = _library().Type.ERROR
        self._unmeasured = self._find_unmeasured()

    def evaluate(self, bound: Bound) -> bool:
        """Raises EvaluationFailed, also for a value that is no bool."""
        result = self._evaluate(bound)
        value = plain(result)
        if value is True or value is False:
            return value
        raise self._failure(result)

    def value(self, bound: Bound) -> Any:
        """A JSON value of a type of the purpose, of a bounded size. Raises EvaluationFailed, also for any other
        value."""
        result = self._evaluate(bound)
        if result.type().name().partition("<")[0] not in self._purpose.types:
            raise self._failure(result)
        try:
            return json_value(result, min(LARGEST, LARGEST_OF_SMALL + TIMES * bound.size))
        except EvaluationFailed:
            raise
        except Exception as error:
            raise EvaluationFailed(str(error)) from error

    def _evaluate(self, bound: Bound) -> Any:
        if bound.size > self._unmeasured:
            self._expect_affordable(bound)
        try:
            return self._eval(bound.activation)
        except Exception as error:  # the binding raises what Python's conversions raise, and RuntimeError for the rest
            raise EvaluationFailed(str(error)) from error

    def _expect_affordable(self, bound: Bound) -> None:
        try:
            found = self._work(sizes_in(bound.values))
        except TooManyValues as error:
            raise EvaluationFailed(TOO_MUCH) from error
        if found > budget(bound.size):
            raise EvaluationFailed(TOO_MUCH)

    @property
    def always_takes_too_much(self) -> bool:
        return self._work(lambda path: NOTHING) > MOST_WORK

    def _find_unmeasured(self) -> int:
        """Bytes of values up to which no evaluation can be too much work, whatever the values are."""
        size, more = 0, 64
        while more <= LARGEST and self._work(_largest(more)) <= budget(size):
            size, more = more, 2 * more
        return size

    def _work(self, size_of: SizeOf) -> int:
        return work(self._tree, size_of, tuple(self.reads), returns=self._purpose in (Purpose.DATA, Purpose.TEXT))

    def why_failed(self, error: EvaluationFailed) -> str:
        """The reason of a failed ``evaluate`` without any value of the object."""
        return why_failed(str(error), self.text)

    def _failure(self, result: Any) -> EvaluationFailed:
        if result.type() == self._error:
            return EvaluationFailed(result.value())
        found = result.type().name().partition("<")[0].lower()
        return EvaluationFailed(f"of type {found}; expected: {self._purpose.expected}")


def _largest(size: int) -> SizeOf:
    """All values of all variables, if these together have as many bytes of JSON."""
    of_json, of_text = most(size), ValueSize(bytes=size)
    return lambda path: of_json if path[0] in _OF_JSON else of_text


def _unfit(value: Any) -> str:
    """Why the binding does not carry a value as it is; empty if it does. It passes on texts as texts of C, which end at
    the first NUL, and loses some memory at each number that it refuses."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            if "\0" in here:
                return NUL
        elif isinstance(here, dict):
            waiting.extend(here)
            waiting.extend(here.values())
        elif isinstance(here, list):
            waiting.extend(here)
        elif isinstance(here, int) and not -(2**63) <= here < 2**63:
            return LONG_NUMBER
    return ""


@cache
def _library() -> Any:
    try:
        from cel_expr_python import cel
    except ImportError as error:
        raise MissingLibrary("expressions need the extra kubedelta[cel]: pip install 'kubedelta[cel]'") from error
    return cel


@cache
def _environment(names: tuple[str, ...]) -> Any:
    cel = _library()
    types = {
        OBJECT: cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        OLD_OBJECT: cel.Type.DYN,  # null for a new object
        CHANGED: cel.Type.List(cel.Type.STRING),
    }
    extensions = [
        getattr(import_module(f"cel_expr_python.ext.ext_{name}"), made)() for name, made in _EXTENSIONS.items()
    ]
    return cel.NewEnv(variables={name: types.get(name, cel.Type.STRING) for name in names}, extensions=extensions)
