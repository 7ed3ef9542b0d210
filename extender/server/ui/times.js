// Points in time: how long ago, with the exact time on hover.

import { el } from "./dom.js";

const REFRESH_MILLISECONDS = 5000;
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** `2026-03-01T12:00:00.123Z` -> `2026-03-01 12:00:00.123 UTC`, and in the zone of the browser if that is another one. */
export function exactTime(time) {
  const utc = `${time.replace("T", " ").replace(/Z$/, "")} UTC`;
  const local = new Date(time);
  if (Number.isNaN(local.getTime()) || local.getTimezoneOffset() === 0) return utc;
  return `${utc} (${local.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long" })})`;
}

/** Return `3 min ago`, in the largest unit of which there are two, or one of the smallest. */
export function ago(time, now = Date.now()) {
  const seconds = Math.round((now - new Date(time).getTime()) / 1000);
  if (Number.isNaN(seconds)) return time;
  if (Math.abs(seconds) < 1) return "just now";
  const [unit, length] = UNITS.find(([name, each]) => Math.abs(seconds) >= (name === "s" ? each : 2 * each));
  const number = Math.floor(Math.abs(seconds) / length).toLocaleString("en");
  return seconds < 0 ? `in ${number} ${unit}` : `${number} ${unit} ago`;
}

/** Return a time that says how long ago it was and stays true. */
export const relative = (time) => el("time", { datetime: time, title: exactTime(time), class: "ago" }, ago(time));

setInterval(() => {
  if (document.hidden) return;
  for (const one of document.querySelectorAll("time.ago")) {
    const text = ago(one.dateTime);
    if (one.textContent !== text) one.textContent = text;
  }
}, REFRESH_MILLISECONDS);
