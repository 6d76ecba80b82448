// Searches for a pasted message literally. In the search's query language some of its characters have
// other meanings: "--option" would exclude a word (or be a syntax error, which finds nothing), and
// quoted text, such as a node's name, would be required.
"use strict";

const kWordsOfMessage = 5;

// A query as plain words, without the command's name before a message. One that is quoted as a whole
// stays: that is how to ask for all of its words. Of a message the words alone count: names of
// nodes and files, and numbers, are other ones on every page. (Long names are those of options.)
function plainQuery(text) {
  if (/^\s*"[^"]*"\s*$/.test(text)) return text;
  const words = text.replace(/^\s*octet: /, "").replace(/["“”~^*]/g, " ")
      .replace(/(^|[\s(\[{=,'`])[-+:]+/g, "$1").replace(/:+(?=\s|$)/g, "").trim().split(/\s+/);
  const said = words.filter(word => !/[\d%…]|\w\.\w|^[^_]*(_[^_]*){1,2}$/.test(word));
  return (said.length >= kWordsOfMessage ? said : words).join(" ");
}

const toWorker = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...more) {
  const isQuery = message?.type === 2 && typeof message.data === "string";
  return toWorker.call(this, isQuery ? {...message, data: plainQuery(message.data)} : message,
                       ...more);
};
