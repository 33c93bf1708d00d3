"""``tempograd train``: a model for a data set."""

import argparse
import json
from pathlib import Path

from tempograd.cli.arguments import Commands, add_command, add_device, add_json, add_source, command, device
from tempograd.cli.outputs import add_force, claim

EXAMPLES = (
    "state --out model.safetensors",
    "state --model gru --fold 0 --seed 1 --out fold0.safetensors",
    "switch_feature --model cnn --epochs 5 --json",
)


def add_train(commands: Commands) -> None:
    parser = add_command(commands, "train", "train a model on a data set", EXAMPLES)
    parser.add_argument("dataset", metavar="DATASET", help="see 'tempograd list datasets'")
    parser.add_argument(
        "--model", default="gru", metavar="NAME", help="see 'tempograd list models' (default: gru)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("model.safetensors"), metavar="FILE", help="(default: model.safetensors)"
    )
    add_force(parser)
    add_json(parser)
    group = parser.add_argument_group("training")
    group.add_argument("--fold", type=int, help="0 to 4: validate on this fifth of the training series")
    group.add_argument("--epochs", type=int, help="at most this many passes over the series")
    group.add_argument("--seed", type=int, default=0, help="(default: 0)")
    add_device(group)
    add_source(parser.add_argument_group("data sets"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd._utils.io import MODEL
    from tempograd.data import load_dataset
    from tempograd.models import accuracy, save_model, train

    claim(args, MODEL)
    data = load_dataset(args.dataset, root=args.root, fold=args.fold, variant=args.variant)
    changes = {} if args.epochs is None else {"epochs": args.epochs}
    model = train(args.model, data, seed=args.seed, device=device(args.device), **changes)
    reached = accuracy(model, data.test)
    facts = {"fold": args.fold, "test_accuracy": reached}
    if data.validation is not None:
        facts["validation_accuracy"] = accuracy(model, data.validation)
    save_model(model, args.out, facts=facts, force=args.force)
    if args.json:
        about = {"out": str(args.out), "dataset": args.dataset, "model": args.model, "seed": args.seed}
        print(json.dumps(about | facts, indent=2))
    else:
        print(f"Test accuracy {reached:.4f}. Wrote {args.out}.")
        place = {"root": args.root, "variant": args.variant}
        print("Next:", command("explain", model=args.out, data=args.dataset, **place))
