"""What methods, data sets and models are called in tables, the names that the paper prints, and the program."""

PROGRAM = "python -m tempograd_paper"

METHOD_LABELS = {
    "timing": "TIMING",
    "rand_ig": "RandIG",
    "integrated_gradients": "IG",
    "gradient_shap": "GradSHAP",
    "deep_lift": "DeepLIFT",
    "lime": "LIME",
    "occlusion": "FO",
    "augmented_occlusion": "AFO",
    "fit": "FIT",
    "winit": "WinIT",
    "dynamask": "Dynamask",
    "extremal_mask": "Extrmask",
    "contralsp": "ContraLSP",
    "timex": "TimeX",
    "timexpp": "TimeX++",
    "random": "random",
}
MARGINAL = "WinIT (marginal)"
"""WinIT that draws from the values of each channel, since its generator is too slow to learn."""
FAMILY, SEGMENTS_ONLY = "TIMING family", "TIMING (segments)"
"""TIMING as it is tuned, among settings that are integrated gradients and RandIG too, and among segments alone."""
PAPER_LABELS = {MARGINAL: METHOD_LABELS["winit"], FAMILY: METHOD_LABELS["timing"]}
"""Rows of ours whose published numbers stand under another name."""
DATASET_LABELS = {
    "mimic3": "MIMIC-III",
    "pam": "PAM",
    "boiler": "Boiler",
    "epilepsy": "Epilepsy",
    "wafer": "Wafer",
    "freezer": "Freezer",
    "switch_feature": "Switch-Feature",
    "state": "State",
    "physionet2012": "PhysioNet 2012",
}
MODEL_LABELS = {"gru": "GRU", "cnn": "CNN", "transformer": "Transformer"}
# the data sets of the paper, to which the released code applies settings of their own
REAL = ("mimic3", "pam", "boiler", "epilepsy", "wafer", "freezer")
SYNTHETIC = ("switch_feature", "state")


def method_label(method: str, protocol: str) -> str:
    """Return what a method is called under a protocol; WinIT is called by its sampler, tuned TIMING a family.

    Examples
    --------
    >>> method_label("winit", "published"), method_label("winit", "fair"), method_label("timing", "tuned")
    ('WinIT', 'WinIT (marginal)', 'TIMING family')
    """
    if method == "winit" and protocol != "published":
        return MARGINAL
    if method == "timing" and protocol == "tuned":
        return FAMILY
    return METHOD_LABELS.get(method, method)
