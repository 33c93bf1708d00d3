"""Series from one's own files: arrays, tables in three forms, and the text format of the UEA archive."""

from tempograd.data.base import Series
from tempograd.data.readers.reading import ENDINGS, read_series

__all__ = ["ENDINGS", "Series", "read_series"]
