// Numbers as people read them: plain decimals where they are short, powers of ten where not.

const raised = (power) => [...String(power)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
const minus = (text) => text.replace("-", "−");
const fixed = (value, places) => {
  const text = value.toFixed(places);
  return /[1-9]/.test(text) ? minus(text) : text.replace("-", "");
};
const decimals = (size) => Math.max(2 - Math.floor(Math.log10(Number(size.toPrecision(3)))), 0);

// Three significant digits, or a whole number.
const number = (value) => {
  if (value === null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size === Infinity) return value > 0 ? "∞" : "−∞";
  if (size === 0) return "0";
  if (size >= 1e-4 && size < 1e6) {
    const text = fixed(value, decimals(size));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }
  const [mantissa, power] = value.toExponential(2).split("e");
  return `${minus(String(Number(mantissa)))} × 10${raised(Number(power))}`;
};

// Numbers that belong together, all to the third digit of the largest, or to fewer.
const alike = (values, largest, digits = 3) => {
  if (!(largest > 0) || largest < 1e-3 || largest >= 1e6) return values.map(number);
  const places = Math.max(0, decimals(largest) - 3 + digits);
  return values.map((value) => (Number.isFinite(value) ? fixed(value, places) : number(value)));
};

// A mean and its standard error to the same digit: two significant ones of the error.
const withError = (mean, error) => {
  if (!Number.isFinite(error) || error === 0 || Math.abs(mean) >= 1e6 || error < 1e-8)
    return Number.isFinite(error) ? `${number(mean)} ± ${number(error)}` : number(mean);
  const places = Math.max(1 - Math.floor(Math.log10(error)), 0);
  return `${fixed(mean, places)} ± ${fixed(error, places)}`;
};

const probability = (value) => {
  if (value === null || Number.isNaN(value)) return "–";
  if (value > 0 && value < 0.0005) return "< 0.001";
  if (value < 1 && value >= 0.9995) return "> 0.999";
  return value.toFixed(3);
};

const output = (value) => (data.output === "probability" ? probability(value) : number(value));
const outputOf = (value, k) => `${output(value)} ${outputUnit(k)}`.trim();
const explainedOutput = (value) => (data.picked ? number(value) : output(value)); // a picked score may be anything
const readable = (label) => label.replaceAll("_", " ");
const counted = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
