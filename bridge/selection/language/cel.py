"""CEL by ``cel-expr-python``, the binding of cel-cpp by CEL's own project. The extra ``kubedelta[cel]`` installs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from bridge.selection.language.checked_expr import UnknownSyntax, read_checked_expr
from bridge.selection.language.constants import wrong_constants
from bridge.selection.language.expression import (
    CHANGED,
    LONGEST,
    OBJECT,
    OF_A_RECORD,
    OF_A_STEP,
    OLD_OBJECT,
    EvaluationFailed,
    ExpressionProblem,
    Purpose,
)
from bridge.selection.language.failures import why_failed
from bridge.selection.language.limits import excesses
from bridge.selection.language.mistakes import at, problem
from bridge.selection.language.paths import PathTree, paths_of
from bridge.selection.language.values import json_value

_EXTENSIONS = {"strings": "ExtStrings", "math": "ExtMath", "optional": "ExtOptional", "bindings": "ExtBindings"}


class MissingLibrary(Exception):
    """``cel-expr-python`` is not installed. The message names the extra."""


class Cel:
    """The language. Raises MissingLibrary where the extra is not installed."""

    def __init__(self) -> None:
        self._cel = _library()

        self._known: dict[tuple[str, Purpose], CelExpression] = {}

    def compile(self, text: str, purpose: Purpose) -> CelExpression:
        """Raises ExpressionProblem for the first mistake."""
        if (text, purpose) not in self._known:
            self._known[text, purpose] = self._compiled(text, purpose)
        return self._known[text, purpose]

    def _compiled(self, text: str, purpose: Purpose) -> CelExpression:
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
        except UnknownSyntax:
            return CelExpression(text, purpose, compiled, dict.fromkeys(names, PathTree(whole=True)))
        for offset, message in (*excesses(tree), *wrong_constants(tree, self._why_wrong)):
            raise at(text, offset, message)
        return CelExpression(text, purpose, compiled, paths_of(tree, names))

    def _why_wrong(self, function: str, constant: str) -> str:
        """The reason why the library's function refuses a constant; empty if it does not."""
        call = f"''.{function}(op)" if function == "matches" else f"{function}(op) == {function}(op)"
        result = _environment(OF_A_STEP).compile(call).eval(data={"op": constant})
        return str(result.value()).partition(": ")[2] if result.type() == self._cel.Type.ERROR else ""


class CelExpression:
    """See ``bridge.selection.language.expression.Expression``."""

    def __init__(self, text: str, purpose: Purpose, compiled: Any, reads: Mapping[str, PathTree]) -> None:
        self.text = text
        self.reads = reads
        self.bind = _environment(OF_A_RECORD).Activation
        self._purpose = purpose
        self._evaluate = compiled.eval
        self._error = _library().Type.ERROR

    def evaluate(self, bound: Any) -> bool:
        try:
            result = self._evaluate(bound)
            value = result.value()
        except Exception as error:  # the binding raises what Python's conversions raise, and RuntimeError for the rest
            raise EvaluationFailed(str(error)) from error
        if value is True or value is False:
            return value
        raise self._failure(result)

    def value(self, bound: Any) -> Any:
        try:
            result = self._evaluate(bound)
            if result.type().name().partition("<")[0] in self._purpose.types:
                return json_value(result)
            raise self._failure(result)
        except EvaluationFailed:
            raise
        except Exception as error:
            raise EvaluationFailed(str(error)) from error

    def why_failed(self, error: EvaluationFailed) -> str:
        return why_failed(str(error), self.text)

    def _failure(self, result: Any) -> EvaluationFailed:
        if result.type() == self._error:
            return EvaluationFailed(result.value())
        found = result.type().name().partition("<")[0].lower()
        return EvaluationFailed(f"of type {found}; expected: {self._purpose.expected}")


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
