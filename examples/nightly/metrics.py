"""Print what the events of a run say as Prometheus reads it: ``python metrics.py explained/ > tempograd.prom``."""

import json
import sys
from datetime import datetime
from pathlib import Path

ABOUT = {
    "series_done": "Series that have results, with those of earlier starts.",
    "series": "Series in all, where that is known.",
    "series_without_explanation": "Series that could not be explained since the last start.",
    "fragments_failed": "Files that failed since the last start.",
    "series_per_second": "Pace since the last start.",
    "seconds_left": "Seconds that the rest will take, where that is known.",
    "bytes_written": "Bytes of results since the last start.",
    "running": "1 from the start to the end of a run.",
    "stopped": "1 if the last start ended with an error.",
    "last_event_timestamp_seconds": "When the last event was.",
}


def read(folder):
    """Return the events of the last start; a line that is still being written is left out."""
    events = []
    for line in (
        Path(folder, "_tempograd", "events.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    ):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        events = [event] if event["event"] == "begin" else [*events, event]
    return events


def metrics(events):
    """Return values by the names of metrics."""
    last = events[-1]
    ended = last["event"] == "end"
    return {
        "series_done": last["done"],
        "series": last["total"],
        "series_without_explanation": last["faults"],
        "fragments_failed": sum(event["event"] == "failed" for event in events),
        "series_per_second": last["per_second"],
        "seconds_left": last["left"],
        "bytes_written": sum(
            event["bytes"] for event in events if event["event"] == "fragment"
        ),
        "running": int(not ended),
        "stopped": int(ended and "reason" in last),
        "last_event_timestamp_seconds": int(
            datetime.fromisoformat(last["time"]).timestamp()
        ),
    }


def main(folder):
    events = read(folder)
    label = f'{{run="{events[-1]["run"]}"}}'
    for name, value in metrics(events).items():
        if value is not None:
            print(f"# HELP tempograd_{name} {ABOUT[name]}")
            print(f"# TYPE tempograd_{name} gauge")
            print(f"tempograd_{name}{label} {value}")


if __name__ == "__main__":
    main(sys.argv[1])
