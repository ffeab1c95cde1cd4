"""Servers and tiny models for tests, of modelkin itself and of what is built on it.

`HubServer` speaks the Hugging Face Hub's protocol on 127.0.0.1, `HubProcess` does so in a process of its own,
`BadServer` misbehaves in a chosen way, and the rest makes models that fit in a test.
"""

from modelkin.formats.safetensors import RawTensor, safetensors_bytes, safetensors_head

from ._bad_server import BadServer
from ._bfloat16 import to_bfloat16
from ._certificate import certificate_pem, client_tls
from ._contents import Servable
from ._faults import Fault
from ._hub_options import Delays, Failure, HubOptions
from ._hub_process import HubProcess
from ._hub_repo import HubRepo
from ._hub_server import HubServer
from ._request_log import Origin, RequestRecord
from ._safetensors import sharded, write_safetensors
from ._tiny_models import (
    BIG_LLAMA,
    FloatName,
    LlamaShape,
    llama_config,
    llama_files,
    llama_tensors,
    virtual_llama,
)
from ._virtual_file import VirtualFile

__all__ = [
    "BIG_LLAMA",
    "BadServer",
    "Delays",
    "Failure",
    "Fault",
    "FloatName",
    "HubOptions",
    "HubProcess",
    "HubRepo",
    "HubServer",
    "LlamaShape",
    "Origin",
    "RawTensor",
    "RequestRecord",
    "Servable",
    "VirtualFile",
    "certificate_pem",
    "client_tls",
    "llama_config",
    "llama_files",
    "llama_tensors",
    "safetensors_bytes",
    "safetensors_head",
    "sharded",
    "to_bfloat16",
    "virtual_llama",
    "write_safetensors",
]
