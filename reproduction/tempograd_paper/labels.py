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
