"""What tests of runs share."""

from dataclasses import fields

import tempograd as tg


def explain_files(model, source, out, **options):
    """Explain a source whose options are among those of the call."""
    columns = {each.name: options.pop(each.name) for each in fields(tg.Source)[1:] if each.name in options}
    return tg.explain_dataset(model, tg.Source(source, **columns) if columns else source, out, **options)
