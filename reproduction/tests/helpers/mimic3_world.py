"""Invented tables in the layout of the full MIMIC-III v1.4: every column, PhysioNet's names."""

import csv
import gzip
import io
from datetime import datetime, timedelta

COLUMNS = {
    "ICUSTAYS": "ROW_ID,SUBJECT_ID,HADM_ID,ICUSTAY_ID,DBSOURCE,FIRST_CAREUNIT,LAST_CAREUNIT,FIRST_WARDID,"
    "LAST_WARDID,INTIME,OUTTIME,LOS",
    "ADMISSIONS": "ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,DEATHTIME,ADMISSION_TYPE,ADMISSION_LOCATION,"
    "DISCHARGE_LOCATION,INSURANCE,LANGUAGE,RELIGION,MARITAL_STATUS,ETHNICITY,EDREGTIME,EDOUTTIME,DIAGNOSIS,"
    "HOSPITAL_EXPIRE_FLAG,HAS_CHARTEVENTS_DATA",
    "PATIENTS": "ROW_ID,SUBJECT_ID,GENDER,DOB,DOD,DOD_HOSP,DOD_SSN,EXPIRE_FLAG",
    "CHARTEVENTS": "ROW_ID,SUBJECT_ID,HADM_ID,ICUSTAY_ID,ITEMID,CHARTTIME,STORETIME,CGID,VALUE,VALUENUM,VALUEUOM,"
    "WARNING,ERROR,RESULTSTATUS,STOPPED",
    "LABEVENTS": "ROW_ID,SUBJECT_ID,HADM_ID,ITEMID,CHARTTIME,VALUE,VALUENUM,VALUEUOM,FLAG",
}
ADMITTED = datetime(2130, 5, 1, 6, 0)
ENTERED = datetime(2130, 5, 1, 8, 17, 30)  # of every ICU stay, unless told otherwise


def after(start, *, hours=0.0, seconds=0):
    return start + timedelta(hours=hours, seconds=seconds)


class World:
    """A hospital: stays are added, then what was measured, then all is written as CSV."""

    def __init__(self):
        self.rows = {name: [] for name in COLUMNS}
        self.stays = {}

    def add(self, table, **cells):
        known = COLUMNS[table].split(",")
        row = {"ROW_ID": len(self.rows[table]) + 1} | {name.upper(): value for name, value in cells.items()}
        assert set(row) <= set(known), set(row) - set(known)
        self.rows[table].append([row.get(name, "") for name in known])

    def stay(
        self, number, *, patient=None, admission=None, hours=72.0, entered=ENTERED, unit="MICU", charted=True
    ):
        """Add ICU stay ``number``, by default of a patient and an admission of its own; chart a heart rate."""
        patient, admission = patient or 1000 + number, admission or 2000 + number
        self.stays[number] = (patient, admission, entered)
        self.add(
            "ICUSTAYS",
            subject_id=patient,
            hadm_id=admission,
            icustay_id=number,
            first_careunit=unit,
            last_careunit="SICU",
            intime=entered,
            outtime=after(entered, hours=hours),
        )
        if charted:
            self.chart(number, 211, 80, seconds=0)

    def admission(self, number, patient, *, admitted=ADMITTED, died=None, ethnicity="WHITE", charted=1):
        self.add(
            "ADMISSIONS",
            subject_id=patient,
            hadm_id=number,
            admittime=admitted,
            dischtime=after(admitted, hours=500),
            deathtime=died or "",
            ethnicity=ethnicity,
            diagnosis='SEPSIS, "SEVERE"\nAND MORE',  # free text may hold anything, a line break too
            hospital_expire_flag=int(died is not None),
            has_chartevents_data=charted,
        )

    def patient(self, number, *, born=datetime(2070, 3, 1), gender="F"):
        self.add("PATIENTS", subject_id=number, gender=gender, dob=born)

    def chart(self, stay, item, value, *, hours=0.0, seconds=1, error="", number=None):
        """Chart a vital sign that long after the stay's beginning; ``number``: under another ICUSTAY_ID."""
        patient, admission, entered = self.stays[stay]
        self.add(
            "CHARTEVENTS",
            subject_id=patient,
            hadm_id=admission,
            icustay_id=stay if number is None else number,
            itemid=item,
            charttime=after(entered, hours=hours, seconds=seconds),
            value=value,
            valuenum=value,
            error=error,
        )

    def lab(self, stay, item, value, *, hours=0.0, seconds=1, admission=None, patient=None):
        own_patient, own_admission, entered = self.stays[stay]
        self.add(
            "LABEVENTS",
            subject_id=patient or own_patient,
            hadm_id=own_admission if admission is None else admission,
            itemid=item,
            charttime=after(entered, hours=hours, seconds=seconds),
            value=value,
            valuenum=value,
        )

    def complete(self):
        """Give every stay a patient and an admission, where none was added."""
        known_admissions = {row[2] for row in self.rows["ADMISSIONS"]}
        known_patients = {row[1] for row in self.rows["PATIENTS"]}
        for patient, admission, _ in self.stays.values():
            if admission not in known_admissions:
                known_admissions.add(admission)
                self.admission(admission, patient)
            if patient not in known_patients:
                known_patients.add(patient)
                self.patient(patient)
        return self

    def text(self, table, *, upper=True, newline="\n"):
        file = io.StringIO()
        header = COLUMNS[table] if upper else COLUMNS[table].lower()
        file.write(",".join(f'"{name}"' if upper else name for name in header.split(",")) + newline)
        csv.writer(file, lineterminator=newline).writerows(self.rows[table])
        return file.getvalue()

    def write(self, folder, *, upper=True, zipped=True, newline="\n"):
        folder.mkdir(parents=True, exist_ok=True)
        for table in COLUMNS:
            content = self.complete().text(table, upper=upper, newline=newline).encode()
            name = (table if upper else table.lower()) + (".csv.gz" if zipped else ".csv")
            (folder / name).write_bytes(gzip.compress(content) if zipped else content)
        return folder
