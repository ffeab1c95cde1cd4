"""Servers and tiny models for tests, of modelkin itself and of what is built on it.

`HubServer` speaks the Hugging Face Hub's protocol on 127.0.0.1, `HubProcess` does so in a process of its own,
`BadServer` misbehaves in a chosen way, and the rest makes models that fit in a test.
"""

from .answers import Servable
from .bad_server import BadServer
from .drawn import DrawnFile
from .faults import Fault
from .hub_process import HubProcess
from .hub_repo import Delays, Failure, HubOptions, HubRepo
from .hub_server import HubServer
from .loopback import RequestRecord, certificate_pem, client_tls
from .models import (
    BIG_LLAMA,
    LlamaShape,
    VirtualFile,
    llama_config,
    llama_files,
    llama_tensors,
    sharded,
    to_bfloat16,
    virtual_llama,
)

__all__ = [
    "BIG_LLAMA",
    "BadServer",
    "Delays",
    "DrawnFile",
    "Failure",
    "Fault",
    "HubOptions",
    "HubProcess",
    "HubRepo",
    "HubServer",
    "LlamaShape",
    "RequestRecord",
    "Servable",
    "VirtualFile",
    "certificate_pem",
    "client_tls",
    "llama_config",
    "llama_files",
    "llama_tensors",
    "sharded",
    "to_bfloat16",
    "virtual_llama",
]
