"use strict";
// Elements, numbers and texts. Nothing here or elsewhere makes markup of a string: names from a
// model become text nodes and attribute values alone.

const byId = id => document.getElementById(id);

// make("td", {class: "number", title: "..."}, "text", otherElement...)
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

// JSON has no infinities: they are written as "inf" and "-inf". null: not measured.
function number(value) {
  if (typeof value === "number") return value;
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return null;
}

// Invisible characters, and those that reverse the text after them, are shown as "\u202e".
const kUnseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]/g;
function printable(value) {
  if (typeof value === "string")
    return value.replace(kUnseen, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  if (Array.isArray(value))
    return typeof value[0] === "number" ? value : value.map(printable);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [printable(key), printable(item)]));
}

const isKnown = value => value !== null && value !== undefined && value !== "";

function format(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (value === Infinity) return "∞";
  if (value === -Infinity) return "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(digits)));
}

const formatDecibels = value =>
  value === null ? "–" : Number.isFinite(value) ? value.toFixed(1) : format(value);
// The error relative to the tensor: 0.1 at 20 dB.
const shareOf = decibels => decibels === null ? null : 10 ** (-decibels / 20);
const formatPercent = share => share === null ? "–" : format(100 * share, 2) + " %";
const formatShare = value => value === null ? "–" : (100 * value).toFixed(2) + " %";
const formatCount = value => value === null ? "–" : value.toLocaleString("en").replaceAll(",", " ");
const formatTime = value => value === null ? "–" : value >= 1000 ? (value / 1000).toFixed(2) + " ms"
  : value.toFixed(1) + " µs";

// Long names keep both ends: the ends are what tells them apart.
function shortText(text, most) {
  if (text.length <= most) return text;
  const kept = Math.floor((most - 1) / 2);
  return text.slice(0, most - 1 - kept) + "…" + text.slice(text.length - kept);
}

function shapeText(shape) {
  return Array.isArray(shape) ? (shape.length ? shape.join("×") : "scalar") : "";
}

// The op without namespace and overload: "aten.conv2d.default" is "conv2d".
function opText(target) {
  const parts = target.split(".");
  if (parts.length > 2) return parts.slice(1, -1).join(".");
  return parts[parts.length - 1];
}

// Not every browser has idle callbacks.
const whenIdle = globalThis.requestIdleCallback ? work => requestIdleCallback(work) : work => setTimeout(work, 10);
const cancelIdle = id => (globalThis.cancelIdleCallback || clearTimeout)(id);

function saveFile(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const link = make("a", {href: url, download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Where a page may not write to the clipboard, the text is shown and selected.
function copyButton(label, textOf) {
  const button = make("button", {type: "button", onclick: async () => {
    const text = textOf();
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const shown = make("pre", {}, text);
      button.replaceWith(shown);
      getSelection().selectAllChildren(shown);
    }
  }}, label);
  return button;
}
