"""What models are and how alike their parts look. Nothing here decides anything."""

from .config_comparison import CONFIGS_SCHEMA, ConfigComparison, compare_configs, config_difference
from .config_fields import known_fields
from .embeddings import (
    EMBEDDINGS_SCHEMA,
    TOKEN_FILTERS,
    EmbeddingComparison,
    RowsNotComparable,
    RowView,
    choose_rows,
    compare_embeddings,
    compare_rows,
    shared_rows,
    token_cosines,
)
from .inspection import (
    INSPECTION_SCHEMA,
    InspectedTensor,
    Inspection,
    TensorPurpose,
    inspect_model,
    plan_components,
)
from .repository import (
    REPOSITORIES_SCHEMA,
    FilePair,
    RepositoryComparison,
    RepositoryFacts,
    compare_repositories,
)
from .tokenizers import Cell, compare_tokenizers, load_tokenizer, not_compared, tokenizer_record
