"""A served atlas: its pages, a JSON interface, and scans that a reader can watch."""

from .access import ServeAccess
from .running import serve_atlas
