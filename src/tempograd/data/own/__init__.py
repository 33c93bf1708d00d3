"""Series from one's own files: arrays, tables in three forms, and the text format of the UEA archive."""

from tempograd.data.own.reading import ENDINGS, read_series
from tempograd.data.own.series import Series

__all__ = ["ENDINGS", "Series", "read_series"]
