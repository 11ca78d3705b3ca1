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
from mlbench.toolkit.language.own_texts import is_language_model, plain_copy, write_texts
from mlbench.toolkit.language.prompt_datasets import AnsweredPrompts, RandomPrompts, StoredPrompts, check_count
from mlbench.toolkit.language.quantization import read_scheme
from mlbench.toolkit.language.rouge import ROUGE_SCORES, Sentences, check_sentences, text_scores
from mlbench.toolkit.language.summary_metric import SummaryMetric
from mlbench.toolkit.language.tables import ColumnTable, read_table
from mlbench.toolkit.language.token_metric import TokenMetric
from mlbench.toolkit.language.token_program import TokenProgram
from mlbench.toolkit.language.token_replies import decode_answers, read_logged_tokens, token_difference, token_limits
from mlbench.toolkit.language.tokenizer_files import TOKENIZER_FILE, open_tokenizer, read_tokenizer, tokenizing

__all__ = [
    "ROUGE_SCORES",
    "TOKENIZER_FILE",
    "AnsweredPrompts",
    "CacheShape",
    "ColumnTable",
    "LanguageFilesProfile",
    "LanguageNetwork",
    "LanguageProfile",
    "RandomPrompts",
    "Sentences",
    "ShippedLanguageProfile",
    "StoredPrompts",
    "SummaryMetric",
    "TokenMetric",
    "TokenProgram",
    "check_config",
    "check_count",
    "check_memory",
    "check_sentences",
    "decode_answers",
    "is_language_model",
    "language_graphs",
    "listed_weights",
    "open_tokenizer",
    "plain_copy",
    "read_logged_tokens",
    "read_scheme",
    "read_table",
    "read_tokenizer",
    "text_scores",
    "token_difference",
    "token_limits",
    "tokenizing",
    "weight_files",
    "weights_fingerprint",
    "write_texts",
]
