"""Fingerprints: sketches of models, a few kilobytes each, whose product with another is the exact test."""

from modelkin.fingerprint._value import FINGERPRINT_SCHEMA, Fingerprint, FingerprintedModel, SlotRecord
from modelkin.fingerprint.making import fingerprint_model
from modelkin.fingerprint.products import (
    BlockProduct,
    FingerprintProduct,
    FingerprintRows,
    fingerprint_product,
)
from modelkin.fingerprint.stacks import FingerprintStack
