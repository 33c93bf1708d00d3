"""Readers of one file each: tables, arrays, and the text format of the UEA archive."""
