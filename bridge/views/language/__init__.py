"""The language of expressions: CEL (https://cel.dev), which is the language of Kubernetes' admission policies, too.

cel          CEL by cel-expr-python: compiles, binds values, evaluates
cost         the work that an evaluation may be, from the sizes of the values that it reads
expression   the interface to the language, and its errors
mistakes     cel-cpp's messages in the operator's words; constants with which an expression never does as meant
paths        the part of an object that an expression reads; decodes that part from an object's bytes
syntax       the syntax tree; the syntax tree of a serialized expression
values       values of expressions as JSON values, of a bounded size; the reasons of failed evaluations, without
             values of the object
"""

from bridge.views.language.cel import Cel, MissingLibrary
from bridge.views.language.expression import (
    CHANGED,
    OLD_OBJECT,
    TIME,
    EvaluationFailed,
    Expression,
    ExpressionProblem,
    Language,
    Purpose,
)

__all__ = [
    "CHANGED",
    "OLD_OBJECT",
    "TIME",
    "Cel",
    "EvaluationFailed",
    "Expression",
    "ExpressionProblem",
    "Language",
    "MissingLibrary",
    "Purpose",
]
