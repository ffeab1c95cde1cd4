"""Text of unknown authors: shown so that nothing in it acts, and read so that nothing in it runs."""

from ._visible import escaped, visible
from ._yaml import YamlRefused, strict_yaml

__all__ = ["YamlRefused", "escaped", "strict_yaml", "visible"]
