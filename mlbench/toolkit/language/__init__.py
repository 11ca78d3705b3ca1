"""Tools for language workloads: official data, prompts, replies and metrics. Importing it loads nothing heavy."""

from mlbench.toolkit.language.graphs import CacheShape, language_graphs
from mlbench.toolkit.language.hugging_face import (
    check_config,
    check_memory,
    listed_weights,
    weight_files,
    weights_fingerprint,
)
from mlbench.toolkit.language.language_profiles import LanguageFilesProfile, LanguageProfile, ShippedLanguageProfile
from mlbench.toolkit.language.network import LanguageNetwork
from mlbench.toolkit.language.prompt_datasets import RandomPrompts, StoredPrompts, check_count
from mlbench.toolkit.language.rouge import ROUGE_SCORES, Sentences, text_scores
from mlbench.toolkit.language.tables import ColumnTable, read_table
from mlbench.toolkit.language.token_metric import TokenMetric
from mlbench.toolkit.language.token_program import TokenProgram
from mlbench.toolkit.language.token_replies import decode_answers, read_logged_tokens, token_difference, token_limits
from mlbench.toolkit.language.tokenizer_files import TOKENIZER_FILE, open_tokenizer, read_tokenizer, tokenizing

__all__ = [
    "ROUGE_SCORES",
    "TOKENIZER_FILE",
    "CacheShape",
    "ColumnTable",
    "LanguageFilesProfile",
    "LanguageNetwork",
    "LanguageProfile",
    "RandomPrompts",
    "Sentences",
    "ShippedLanguageProfile",
    "StoredPrompts",
    "TokenMetric",
    "TokenProgram",
    "check_config",
    "check_count",
    "check_memory",
    "decode_answers",
    "language_graphs",
    "listed_weights",
    "open_tokenizer",
    "read_logged_tokens",
    "read_table",
    "read_tokenizer",
    "text_scores",
    "token_difference",
    "token_limits",
    "tokenizing",
    "weight_files",
    "weights_fingerprint",
]
