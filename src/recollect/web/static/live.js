// New events on top of the list, as they happen. Without this the page shows what had happened when it was made.
"use strict";

const KEPT = 300;
const list = document.getElementById("events");
const blank = document.getElementById("event");
const sign = document.getElementById("live");

function say(words, kind) {
  sign.hidden = false;
  sign.textContent = words;
  sign.className = `state ${kind}`;
}

function actor(id) {
  if (id === null) return "the server";
  return id === list.dataset.me ? "you" : id;
}

function told(data) {
  const words = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const all = Object.entries(data).map(([name, value]) => `${name}: ${words(value)}`).join(" · ");
  return all.length > 300 ? `${all.slice(0, 297)}...` : all;
}

// By textContent alone: what others have written stays text.
function show(event) {
  const row = blank.content.cloneNode(true);
  const part = (name) => row.querySelector(`[data-part="${name}"]`);
  part("type").textContent = event.type;
  part("subject").textContent = event.subject;
  part("data").textContent = told(event.data);
  part("actor").textContent = actor(event.actor);
  part("time").dateTime = event.happened_at;
  part("time").textContent = new Date(event.happened_at).toISOString().slice(0, 19).replace("T", " ");
  row.firstElementChild.classList.add("new");
  list.prepend(row);
  while (list.rows.length > KEPT) list.deleteRow(-1);
  list.closest("table").hidden = false;
  document.getElementById("nothing")?.remove();
}

function follow() {
  const query = new URLSearchParams({ after: list.dataset.after });
  if (list.dataset.wanted) query.set("types", list.dataset.wanted);
  const source = new EventSource(`/api/events?${query}`);
  source.addEventListener("open", () => say("live", "succeeded"));
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) say("not live; reload the page", "failed");
    else say("reconnecting", "running");
  });
  source.addEventListener("reset", () => {
    source.close();
    say("away for too long; reload the page", "failed");
  });
  for (const type of list.dataset.types.split(" ")) {
    source.addEventListener(type, (message) => show(JSON.parse(message.data)));
  }
}

// Gone back to, a page may come as it was left, and deaf.
addEventListener("pageshow", (event) => event.persisted && location.reload());
follow();
