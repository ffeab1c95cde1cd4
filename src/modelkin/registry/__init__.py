"""Registries of fingerprints: stored, synced, scanned; on one machine or many."""

from modelkin.registry.cluster import all_pairs_on, open_cluster, rows_on
from modelkin.registry.pairs import PAIRS_SCHEMA, RegistryPairs, all_fingerprints, all_pairs, named_pairs
from modelkin.registry.publishing import export_registry
from modelkin.registry.scanning import SCAN_SCHEMA, ScanHit, ScanOptions, ScanResult, scan
from modelkin.registry.store import Registry, RegistryCheck, RegistryInfo, create_registry, open_registry
from modelkin.registry.sync import (
    SyncResult,
    SyncTarget,
    revision_of,
    sync,
    targets_of_folder,
    targets_of_hub,
    targets_of_list,
)
