"""Text of unknown authors: checked before use, read within limits, shown so that nothing in it takes effect.

Names of tensors, files and tokens, listings, configs and tokenizers come from whoever published a model.
"""

from ._json import JsonRefused, strict_json, strict_object
from ._names import MAX_NAME_LENGTH, is_no_path, name_problem, path_problem, plain_path_problem
from ._scanner import Scanner
from ._shown import escaped, plain, quoted, short_names, visible
from ._yaml import YamlRefused, strict_yaml
from .cells import cell_text, csv_text, records_csv
