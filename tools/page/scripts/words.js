// The field's words, explained where the pointer rests on them, and in the list under "Help".

const kWords = {
  "SQNR": "signal-to-quantization-noise ratio: how much larger a tensor is than its error. Higher is better",
  "dB": "decibels: 20 dB is an error of 10 %, 30 dB of 3 %, 40 dB of 1 %, 60 dB of 0.1 %",
  "alone": "with this op alone quantized and its inputs exact: the error that the op itself adds",
  "all ops": "with every op quantized: the error of this op and of all ops before it",
  "accumulated": "the op adds little; its inputs are wrong already",
  "calibration": "running sample data through the float program to see the range of each tensor",
  "clipped": "the share of the values outside of the range that the integers can hold",
  "range": "the least and the largest value that the integers can hold",
  "observed": "the least and the largest value that calibration saw",
  "observer": "the part that saw the values during calibration and chose the range from them",
  "scale": "the step between two neighboring integers, in the float program's units",
  "zero point": "the integer that stands for 0.0",
  "steps": "an error in multiples of the scale: 0.5 is what rounding costs",
  "cosine": "1 if two tensors point in the same direction",
  "MSE": "mean squared error",
  "largest": "the largest error of an element",
  "rank": "1 is the op that adds the largest error",
  "dtype": "type of the elements: s8 and u8 are 8-bit integers, f32 is float",
  "q/dq": "the quantized program as PyTorch runs it: quantize and dequantize ops around float ops",
  "backend": "the library that runs the op: oneDNN, XNNPACK or the reference",
  "channel": "a slice of a weight, mostly one output; per channel: each has a scale",
  "MACs": "multiply-accumulates: how much arithmetic the op does",
  "multiply-accumulates": "how much arithmetic an op does",
  "int8": "8-bit integers",
  "top-1": "how often the largest output is the same",
  "fused": "ops that run as one",
  "Pareto front": "the settings that no other setting beats in both latency and error",
};
const kTerms = new RegExp(`(?<![\\w-])(${Object.keys(kWords).join("|").replaceAll("/", "\\/")})(?![\\w-])`);

// A text with its terms as <abbr>; a term is explained once in a text.
function explained(text) {
  const done = new Set();
  return String(text).split(kTerms).map((part, i) => {
    if (i % 2 === 0 || done.has(part)) return part;
    done.add(part);
    return make("abbr", {title: kWords[part]}, part);
  });
}

// What the terms of a text mean, for a title.
const meaningOf = text => explained(text).filter(part => part.title)
  .map(part => `${part.textContent}: ${part.title}`).join("\n") || null;
