// node-redlock driven by lines (../README.md): node line.mjs HOST:PORT[,HOST:PORT...] DURATION_MS
import readline from 'node:readline';
import { Redis } from 'ioredis';
import Redlock from 'redlock';

const [nodes, duration] = [process.argv[2].split(','), Number(process.argv[3])];
const clients = nodes.map((n) => new Redis({ host: n.split(':')[0], port: Number(n.split(':')[1]) }));
clients.forEach((c) => c.on('error', () => {}));
const locker = (retryCount) => {
  const r = new Redlock(clients, { retryCount, retryDelay: 200, retryJitter: 100 });
  r.on('error', () => {});
  return r;
};
const [once, patient] = [locker(0), locker(1000)];
const held = new Map();

async function run(who, command, name, ...args) {
  const key = `${who} ${name}`;
  const ms = Number(args[0]);
  switch (command) {
    case 'lock':
    case 'try': {
      const l = command === 'lock' ? patient : ms < 200 ? once : locker(Math.floor(ms / 200));
      try {
        held.set(key, await l.acquire(name.split('+'), duration));
      } catch (e) {
        return `no ${e.message}`;
      }
      return `ok ${held.get(key).value}`;
    }
    case 'extend':
      held.set(key, await held.get(key).extend(duration));
      return 'ok';
    case 'unlock':
      await held.get(key).release();
      return 'ok';
    case 'held':
      return held.get(key)?.expiration > Date.now() ? 'ok' : 'no';
    case 'pairs':
      return pairs(name, ms, Number(args[1]), args[2]);
    case 'contend':
      return contend(name, ...args.map(Number));
    default:
      return 'error no such command';
  }
}

const together = (callers, work) => Promise.all(Array.from({ length: callers }, (_, caller) => work(caller)));
const middle = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
const now = () => performance.now();

async function pairs(prefix, count, callers, what = 'lock') {
  const [kind, several] = what.split(':');
  if (!['lock', 'names'].includes(kind)) return 'error no such kind';
  const took = [];
  let next = 0;
  const begin = now();
  await together(callers, async (caller) => {
    while (next < count) {
      const name = `${prefix}:${caller}:${next++}`;
      const asked = now();
      const names = several ? Array.from({ length: several }, (_, n) => `${name}/${n}`) : [name];
      const lock = await patient.acquire(names, duration);
      await lock.release();
      took.push(now() - asked);
    }
  });
  const seconds = (now() - begin) / 1000;
  return `ok ${Math.round(middle(took) * 1000)} ${count / seconds}`;
}

async function contend(name, waiters, seconds) {
  const end = now() + seconds * 1000;
  const gaps = [];
  let [grants, longest, last, worked] = [0, 0, -1, 0];
  await together(waiters, async (caller) => {
    for (let asked; (asked = now()) < end; ) {
      const lock = await patient.acquire([name], duration);
      const granted = now();
      longest = Math.max(longest, Math.min(granted, end) - asked);
      // Nobody works after the end: those who still wait then let go at once.
      if (granted < end) {
        grants += 1;
        if (last >= 0 && last !== caller) gaps.push(granted - worked);
        await new Promise((done) => setTimeout(done, 1));
      }
      [last, worked] = [caller, now()];
      await lock.release();
    }
  });
  return `ok ${gaps.length ? Math.round(middle(gaps) * 1000) : -1} ${Math.round(longest)} ${grants}`;
}

console.log('ready');
const lines = readline.createInterface({ input: process.stdin });
lines.on('line', async (line) => {
  const [id, ...rest] = line.split(' ');
  const from = Date.now();
  const answer = await run(...rest).catch((e) => `error ${e.message}`);
  console.log(id, Date.now() - from, answer.replaceAll('\n', ' '));
});
lines.on('close', () => process.exit(0)); // its connections would keep it alive
