-- MIMIC-III: from the tables of the database to hourly means of 48 hours of intensive care.
--
-- Reads the views icustays, admissions, patients, chartevents and labevents, which show the columns that are
-- needed of the CSV files. Leaves two tables:
--
--   stays  one row per ICU stay that is kept, numbered in database order
--   cells  one row per stay, channel and hour that holds a measurement
--
-- Channels are numbered as in CHANNELS of mimic3.py: 0-19 laboratory, 20-27 vital signs. Everything here is
-- section 4.4 of the published protocol; where that does something odd, both ways are kept and Python chooses.

-- Join as written: the table on the left, the large one, streams past the small ones on the right. Left to itself
-- the planner, which cannot know how many rows a CSV file has, would hold all of chartevents in memory or on disk.
SET disabled_optimizers = 'join_order,build_side_probe_side';


-- 1. What is measured ----------------------------------------------------------------------------------------

-- A vital sign counts if above < value < below, or value = below where that is included.
CREATE TEMP TABLE vital_items AS
SELECT channel, unnest(itemids) AS itemid, above, below, included, fahrenheit
FROM (
    VALUES
    (20, [211, 220045], 0.0, 300.0, false, false),                                               -- HeartRate
    (21, [51, 442, 455, 6701, 220179, 220050], 0.0, 400.0, false, false),                        -- SysBP
    (22, [8368, 8440, 8441, 8555, 220180, 220051], 0.0, 300.0, false, false),                    -- DiasBP
    (23, [456, 52, 6702, 443, 220052, 220181, 225312], 0.0, 300.0, false, false),                -- MeanBP
    (24, [615, 618, 220210, 224690], 0.0, 70.0, false, false),                                   -- RespRate
    (25, [646, 220277], 0.0, 100.0, true, false),                                                -- SpO2
    (26, [807, 811, 1529, 3745, 3744, 225664, 220621, 226537], 0.0, 'inf'::DOUBLE, false, false),  -- Glucose
    (27, [223762, 676], 10.0, 50.0, false, false),                                               -- Temp, Celsius
    (27, [223761, 678], 70.0, 120.0, false, true)                                                -- Temp, Fahrenheit
) AS rules (channel, itemids, above, below, included, fahrenheit);

-- A laboratory value above its cap is a measurement without a value.
CREATE TEMP TABLE lab_items AS
SELECT channel, unnest(itemids) AS itemid, cap
FROM (
    VALUES
    (0, [50868], 10000),         -- ANION GAP
    (1, [50862], 10),            -- ALBUMIN
    (2, [50882], 10000),         -- BICARBONATE
    (3, [50885], 150),           -- BILIRUBIN
    (4, [50912], 150),           -- CREATININE
    (5, [50806, 50902], 10000),  -- CHLORIDE
    (6, [50809, 50931], 10000),  -- GLUCOSE
    (7, [50810, 51221], 100),    -- HEMATOCRIT
    (8, [50811, 51222], 50),     -- HEMOGLOBIN
    (9, [50813], 50),            -- LACTATE
    (10, [50960], 60),           -- MAGNESIUM
    (11, [50970], 60),           -- PHOSPHATE
    (12, [51265], 10000),        -- PLATELET
    (13, [50822, 50971], 30),    -- POTASSIUM
    (14, [51275], 150),          -- PTT
    (15, [51237], 50),           -- INR
    (16, [51274], 150),          -- PT
    (17, [50824, 50983], 200),   -- SODIUM
    (18, [51006], 300),          -- BUN
    (19, [51300, 51301], 1000)   -- WBC
) AS rules (channel, itemids, cap);


-- 2. Whose stays: at least 48 hours, neither children's ward, no age hidden behind a birth 300 years ago -------

CREATE TEMP TABLE cohort AS
WITH every_stay AS (
    SELECT
        icu.subject_id, icu.hadm_id, icu.icustay_id, adm.admittime, icu.intime, icu.outtime, icu.first_careunit,
        CAST(coalesce(adm.deathtime BETWEEN icu.intime AND icu.outtime, false) AS INTEGER) AS icu_death,
        CAST(coalesce(adm.hospital_expire_flag = 1, false) AS INTEGER) AS hospital_death,
        CAST(coalesce(pat.gender = 'M', false) AS INTEGER) AS gender,
        (CAST(adm.admittime AS DATE) - CAST(pat.dob AS DATE)) // 365 AS age,  -- whole years, as published
        CASE
            WHEN lower(adm.ethnicity) LIKE 'white%' THEN 1
            WHEN lower(adm.ethnicity) LIKE 'black%' THEN 2
            WHEN lower(adm.ethnicity) LIKE 'hisp%' OR lower(adm.ethnicity) LIKE 'latin%' THEN 3
            WHEN lower(adm.ethnicity) LIKE 'asia%' THEN 4
            ELSE 5
        END AS ethnicity,
        -- ranked before anything is left out: a second stay stays a second stay
        CAST(rank() OVER (PARTITION BY icu.hadm_id ORDER BY icu.intime) = 1 AS INTEGER) AS first_icu_stay
    FROM icustays AS icu
    INNER JOIN admissions AS adm ON icu.hadm_id = adm.hadm_id
    INNER JOIN patients AS pat ON icu.subject_id = pat.subject_id
    WHERE adm.has_chartevents_data = 1
)
SELECT * EXCLUDE (first_careunit, outtime)
FROM every_stay
WHERE outtime >= intime + INTERVAL 48 HOURS
    AND age < 300
    AND coalesce(first_careunit, '') NOT IN ('PICU', 'NICU');


-- 3. Vital signs of the first 48 hours: the one pass over the large table ------------------------------------

CREATE TEMP TABLE vitals AS
SELECT
    icustay_id, channel, charttime,
    CASE WHEN fahrenheit THEN (valuenum - 32) / 1.8 ELSE valuenum END AS value
FROM chartevents
INNER JOIN vital_items USING (itemid)
INNER JOIN cohort USING (subject_id, hadm_id, icustay_id)
WHERE error IS DISTINCT FROM 1
    AND charttime BETWEEN intime AND intime + INTERVAL 48 HOURS
    AND valuenum > above
    AND (valuenum < below OR (included AND valuenum = below));


-- 4. Laboratory values: these tables know the admission only, so two stays of one may share some ---------------

CREATE TEMP TABLE labs AS
SELECT icustay_id, channel, charttime, CASE WHEN valuenum <= cap THEN valuenum END AS value
FROM labevents
INNER JOIN lab_items USING (itemid)
INNER JOIN cohort USING (subject_id, hadm_id)
WHERE charttime BETWEEN intime AND intime + INTERVAL 48 HOURS
    AND valuenum > 0;


-- 5. Hours, counted from the first vital sign; a stay without any is left out ----------------------------------

CREATE TEMP TABLE stays AS
SELECT
    row_number() OVER (ORDER BY subject_id, admittime, intime, icustay_id) - 1 AS stay,
    cohort.*,
    start
FROM cohort
INNER JOIN (SELECT icustay_id, min(charttime) AS start FROM vitals GROUP BY icustay_id) USING (icustay_id);

-- Hours before 0 and from 48 on are kept here: they tell that something was measured, though never in time.
CREATE TEMP TABLE cells AS
WITH measured AS (
    SELECT stay, channel, value, epoch_us(charttime) - epoch_us(start) AS since
    FROM (FROM vitals UNION ALL FROM labs)
    INNER JOIN stays USING (icustay_id)
)
SELECT
    stay, channel,
    CAST(floor(since / 3600e6) AS INTEGER) AS hour,
    avg(value) AS value,                                                       -- s <= t < s + 1 h
    avg(value) FILTER (WHERE since % 3600000000 <> 0) AS inside                -- s <  t < s + 1 h, as published
FROM measured
GROUP BY stay, channel, hour;
