"""Text of unknown authors: judged before it is used, read within limits, shown so that nothing in it acts.

Names of tensors, files and tokens, listings, configs and tokenizers are written by whoever published a model.
"""

from ._json import JsonRefused, strict_json, strict_object
from ._names import MAX_NAME_LENGTH, name_problem, path_problem, plain_path_problem
from ._scanner import Scanner
from ._shown import escaped, plain, quoted, visible
from ._yaml import YamlRefused, strict_yaml

__all__ = [
    "MAX_NAME_LENGTH",
    "JsonRefused",
    "Scanner",
    "YamlRefused",
    "escaped",
    "name_problem",
    "path_problem",
    "plain",
    "plain_path_problem",
    "quoted",
    "strict_json",
    "strict_object",
    "strict_yaml",
    "visible",
]
