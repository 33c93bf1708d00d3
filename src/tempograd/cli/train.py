"""``tempograd train``: a model for a data set."""

import argparse
from pathlib import Path

from tempograd.cli.arguments import Commands, add_command, add_device, add_source


def add_train(commands: Commands) -> None:
    parser = add_command(
        commands,
        "train",
        "train a model on a data set",
        "tempograd train state --model gru --fold 0 --out model.safetensors",
    )
    parser.add_argument("dataset", metavar="DATASET", help="see 'tempograd list datasets'")
    parser.add_argument(
        "--model", default="gru", metavar="NAME", help="see 'tempograd list models' (default: gru)"
    )
    parser.add_argument("--fold", type=int, help="0 to 4: validate on this fifth of the training series")
    parser.add_argument("--recipe", default="default", metavar="NAME", help="default or published")
    parser.add_argument("--epochs", type=int, help="at most this many passes over the series")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("model.safetensors"))
    add_source(parser)
    add_device(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd.cli.arguments import device
    from tempograd.data import load_dataset
    from tempograd.models import accuracy, save_model, train

    data = load_dataset(args.dataset, root=args.root, fold=args.fold, variant=args.variant)
    changes = {} if args.epochs is None else {"epochs": args.epochs}
    model = train(args.model, data, seed=args.seed, recipe=args.recipe, device=device(args.device), **changes)
    reached = accuracy(model, data.test)
    facts = {"fold": args.fold, "test_accuracy": reached}
    if data.validation is not None:
        facts["validation_accuracy"] = accuracy(model, data.validation)
    save_model(model, args.out, facts=facts)
    print(f"Test accuracy {reached:.4f}. Wrote {args.out}.")
