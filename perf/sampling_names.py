"""What the page on sampling calls data sets, models, settings, draws and ways of asking."""

DATASETS = {
    "wafer": "Wafer",
    "freezer": "Freezer",
    "epilepsy": "Epilepsy",
    "boiler": "Boiler",
    "physionet2012": "PhysioNet 2012",
    "state": "State",
}
MODELS = {"gru": "GRU", "cnn": "CNN", "transformer": "Transformer"}
SETTINGS = {"paper": "paper's", "automatic": "automatic"}
DESIGNS = {  # what was drawn, and the estimates from it: the plain mean and the regression
    "released": ("independent masks, as released", "ratio", ""),
    "independent, jitter": ("independent masks, random places in the strata of the path", "ratio", "both, firm"),
    "latin, jitter": ("Latin hypercube for the segments", "ratio", "both, firm"),
    "sobol": ("Sobol' points", "ratio", "both, firm"),
    "antithetic": ("antithetic pairs of masks", "ratio", "both, firm"),
    "shared by 2": ("two points on the path of each mask", "ratio", "both, firm"),
    "far ends, three quarters": ("37 points, and a forward pass to the far end for each", "ratio", "whole"),
    "anchored 0.2": ("a fifth of the masks anchored", "ratio", "both, firm"),
    "anchored 0.8": ("four fifths anchored", "ratio", "both, firm"),
    "pilot 0, tilt": ("pilot: positions where effects arise", "ratio", "both, firm"),
    "pilot 1": ("pilot: masks anchored where effects are", "ratio", "both, firm"),
    "pilot 1, tilt": ("pilot: both", "ratio", "both, firm"),
}
KNOWN = {  # models with known answers, by how their names begin
    "quadratic": "quadratic form",
    "sigmoid 1": "sigmoid, steepness 1",
    "sigmoid 4": "sigmoid, steepness 4",
    "sigmoid 16": "sigmoid, steepness 16",
    "sigmoid 60": "sigmoid, steepness 60",
    "LSTM, probability": "LSTM, probability",
    "LSTM, raw": "LSTM, raw output",
    "smooth": "smooth networks",
}
ASKED = {
    "plain 50": "plain mean",
    "50": "50 points",
    "200": "200 points",
    "anchored .8": "anchored",
    "tolerance .05": "tolerance 0.05",
    "top .05": "top 0.05",
}
