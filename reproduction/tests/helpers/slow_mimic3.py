"""MIMIC-III by hand: section 4.4 of the protocol in plain loops, without a database and without arrays.

Written from the protocol's text, not from the SQL: where the two agree, both are right or both misread it. The
text leaves three things open, which both take from the released code: age in whole years of 365 days, ethnicity by
the first letters of its entry, and windows of 48 hours that include both ends.
"""

import csv
import gzip
import math
from collections import defaultdict
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)
LABS = [  # name, items, cap
    ("ANION GAP", "50868", 10000),
    ("ALBUMIN", "50862", 10),
    ("BICARBONATE", "50882", 10000),
    ("BILIRUBIN", "50885", 150),
    ("CREATININE", "50912", 150),
    ("CHLORIDE", "50806/50902", 10000),
    ("GLUCOSE", "50809/50931", 10000),
    ("HEMATOCRIT", "50810/51221", 100),
    ("HEMOGLOBIN", "50811/51222", 50),
    ("LACTATE", "50813", 50),
    ("MAGNESIUM", "50960", 60),
    ("PHOSPHATE", "50970", 60),
    ("PLATELET", "51265", 10000),
    ("POTASSIUM", "50822/50971", 30),
    ("PTT", "51275", 150),
    ("INR", "51237", 50),
    ("PT", "51274", 150),
    ("SODIUM", "50824/50983", 200),
    ("BUN", "51006", 300),
    ("WBC", "51300/51301", 1000),
]
VITALS = [
    ("HeartRate", "211,220045", lambda v: v if 0 < v < 300 else None),
    ("SysBP", "51,442,455,6701,220179,220050", lambda v: v if 0 < v < 400 else None),
    ("DiasBP", "8368,8440,8441,8555,220180,220051", lambda v: v if 0 < v < 300 else None),
    ("MeanBP", "456,52,6702,443,220052,220181,225312", lambda v: v if 0 < v < 300 else None),
    ("RespRate", "615,618,220210,224690", lambda v: v if 0 < v < 70 else None),
    ("SpO2", "646,220277", lambda v: v if 0 < v <= 100 else None),
    ("Glucose", "807,811,1529,3745,3744,225664,220621,226537", lambda v: v if v > 0 else None),
    ("Temp", "223761,678", lambda v: (v - 32) / 1.8 if 70 < v < 120 else None),
    ("Temp", "223762,676", lambda v: v if 10 < v < 50 else None),
]
NAMES = [
    *(name for name, _, _ in LABS),
    *dict.fromkeys(name for name, _, _ in VITALS),
    *("gender", "age", "ethnicity", "first_icu_stay"),
]
VITAL_NAMES = NAMES[20:28]
RULE_OF_VITAL = {item: (name, rule) for name, items, rule in VITALS for item in items.split(",")}
RULE_OF_LAB = {item: (name, cap) for name, items, cap in LABS for item in items.split("/")}


def table(folder, name):
    with gzip.open(folder / f"{name}.csv.gz", "rt", newline="") as file:
        return [{key.lower(): value for key, value in row.items()} for row in csv.DictReader(file)]


def when(text):
    return datetime.fromisoformat(text) if text else None


def cohort(folder):
    """Return the stays that the cohort rule keeps, in database order."""
    admissions = {row["hadm_id"]: row for row in table(folder, "ADMISSIONS")}
    patients = {row["subject_id"]: row for row in table(folder, "PATIENTS")}
    icustays = table(folder, "ICUSTAYS")
    stays = []
    for row in icustays:
        admission, patient = admissions[row["hadm_id"]], patients[row["subject_id"]]
        entered, left = when(row["intime"]), when(row["outtime"])
        if admission["has_chartevents_data"] != "1" or left is None or left - entered < 48 * HOUR:
            continue
        age = (when(admission["admittime"]).date() - when(patient["dob"]).date()).days // 365
        if age >= 300 or row["first_careunit"] in {"PICU", "NICU"}:
            continue
        death, said = when(admission["deathtime"]), admission["ethnicity"].lower()
        sooner = [o for o in icustays if o["hadm_id"] == row["hadm_id"] and when(o["intime"]) < entered]
        stays.append(
            {
                "key": (row["subject_id"], row["hadm_id"], row["icustay_id"]),
                "order": (int(row["subject_id"]), when(admission["admittime"]), entered),
                "entered": entered,
                "icu_death": int(death is not None and entered <= death <= left),
                "hospital_death": int(admission["hospital_expire_flag"]),
                "static": [
                    float(patient["gender"] == "M"),
                    float(age),
                    1.0 + [*(said.startswith(p) for p in ("white", "black", "hisp", "asia")), True].index(True),
                    float(not sooner),
                ],
            }
        )
    return sorted(stays, key=lambda stay: stay["order"])


def measurements(folder, stays):
    """Give each stay its (channel, time, value or None); the stays without a vital sign are left out."""
    chart, lab = defaultdict(list), defaultdict(list)
    for row in table(folder, "CHARTEVENTS"):
        if row["itemid"] in RULE_OF_VITAL and row["error"] != "1" and row["valuenum"]:
            chart[row["subject_id"], row["hadm_id"], row["icustay_id"]].append(row)
    for row in table(folder, "LABEVENTS"):
        if row["itemid"] in RULE_OF_LAB and row["valuenum"]:
            lab[row["subject_id"], row["hadm_id"]].append(row)
    for stay in stays:
        last, stay["measured"] = stay["entered"] + 48 * HOUR, []
        for row in chart[stay["key"]]:
            name, rule = RULE_OF_VITAL[row["itemid"]]
            value, time = rule(float(row["valuenum"])), when(row["charttime"])
            if value is not None and stay["entered"] <= time <= last:
                stay["measured"].append((name, time, value))
        stay["start"] = min((time for _, time, _ in stay["measured"]), default=None)
        for row in lab[stay["key"][:2]]:
            name, cap = RULE_OF_LAB[row["itemid"]]
            value, time = float(row["valuenum"]), when(row["charttime"])
            if value > 0 and stay["entered"] <= time <= last:
                stay["measured"].append((name, time, value if value <= cap else None))
    return [stay for stay in stays if stay["start"] is not None]


def raw_series(stay, *, strictly_inside):
    """48 rows of 32 means, None where there is none, and the names of all that was ever measured."""
    gathered = defaultdict(list)
    starts = [stay["start"] + hour * HOUR for hour in range(48)]
    for name, time, value in stay["measured"]:
        for hour, start in enumerate(starts):
            if (start < time if strictly_inside else start <= time) and time < start + HOUR and value is not None:
                gathered[hour, name].append(value)
    series = [[None] * 28 + stay["static"] for _ in range(48)]
    for (hour, name), values in gathered.items():
        series[hour][NAMES.index(name)] = math.fsum(values) / len(values)
    return series, {name for name, _, _ in stay["measured"]}


def series_of(stays, *, published):
    """Every kept stay with its raw series, by the published rules or by ours."""
    kept = []
    for stay in stays:
        series, occurring = raw_series(stay, strictly_inside=published)
        if published:
            seen = {name for row in series for name, value in zip(NAMES, row, strict=True) if value is not None}
            if any(name in occurring and name not in seen for name in VITAL_NAMES):
                continue
            for row in series:
                for channel, name in enumerate(NAMES[:28]):
                    if name not in occurring:
                        row[channel] = 0.0
        kept.append(stay | {"series": series})
    return kept


def standardised(stays, trains):
    """Series with 0 for None, scaled by the cells of the stays for which ``trains`` is true."""
    results = [[[0.0] * 32 for _ in range(48)] for _ in stays]
    for channel in range(32):
        cells = [
            row[channel]
            for stay, train in zip(stays, trains, strict=True)
            for row in stay["series"]
            if train and row[channel] is not None
        ]
        mean = math.fsum(cells) / len(cells)
        deviation = math.sqrt(math.fsum((cell - mean) ** 2 for cell in cells) / (len(cells) - 1))
        for stay, result in zip(stays, results, strict=True):
            for hour, row in enumerate(stay["series"]):
                if row[channel] is not None:
                    result[hour][channel] = (row[channel] - mean) / (deviation + 1e-5)
    return results
