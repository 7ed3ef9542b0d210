// Resource claims of the incoming pod on one node: what each request finds there, and why it does not get a device.

import { add, el, name, scrolling } from "./dom.js";
import { slices } from "./slices.js";
import { count } from "./words.js";

/** Return the claims as a list, with a table of devices per request that opens; null without claims. */
export function claims(node) {
  if (!node.claims?.length) return null;
  return el("section", { class: "claims-of-node" },
    el("h3", {}, `Resource claims on ${node.name}`),
    node.notFollowed ? el("p", {}, "Not evaluated here, kube-scheduler decides: ", name(node.notFollowed)) : null,
    el("dl", { class: "facts" }, node.claims.map((claim) => [el("dt", {}, title(claim)), el("dd", {}, summary(claim))])));
}

const title = ({ name: own, claim }) => [name(own), claim ? [" (", name(claim), ")"] : null];

function summary(claim) {
  return [el("p", {}, name(claim.summary)), (claim.requests ?? []).map(request)];
}

function request(one) {
  const devices = one.devices ?? [];
  const line = [name(one.name), ": ", one.fails ? el("strong", { class: "bad" }, name(one.summary)) : name(one.summary)];
  if (!devices.length) return el("p", { class: "request" }, line);
  const body = el("tbody");
  const details = el("details", { class: "request", ontoggle: () => details.open && !body.children.length && fill() }, el("summary", {}, line));
  function fill() {
    const more = slices(body, devices, row, "devices", 50);
    add(details,
      scrolling(`Devices for request ${one.name}`, el("table", { class: "devices" },
        el("thead", {}, el("tr", {}, ["Device", "Result", "Detail"].map((heading) => el("th", { scope: "col" }, heading)))), body)),
      more.line,
      one.omitted ? el("p", { class: "muted" }, `${count(one.omitted, "device")} more are not shown.`) : null);
  }
  return details;
}

const row = ({ device, why, detail }) =>
  el("tr", {}, el("th", { scope: "row" }, name(device)), el("td", { class: why ? null : "passed" }, why ? name(why) : "free"), el("td", {}, detail ? name(detail) : ""));
