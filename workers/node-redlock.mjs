// node-redlock on ioredis, with its defaults: node node-redlock.mjs DIR. A worker of the lab, by the lines of docs/lab/WORKERS.md.
//
// The library says until when a lock is valid (`expiration`, by the wall clock). It renews only within
// `using`, which this worker does not use: holders of the lab take and give back.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';

// CLOCK_BOOTTIME. hrtime is CLOCK_MONOTONIC, which lacks the time that the machine was suspended. A pause
// between the two readings makes the difference smaller, so the largest counts.
const uptime = () => Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1e9;
const ahead = Math.max(...Array.from({ length: 5 }, () => uptime() - Number(process.hrtime.bigint())));
const suspended = ahead < 50e6 ? 0n : BigInt(Math.round(ahead));
const clock = () => process.hrtime.bigint() + suspended;

// JSON has no whole numbers of this size in JavaScript: they are written as they are.
const say = (line, fields) =>
  console.log(JSON.stringify({ line, ...fields }, (_, v) => (typeof v === 'bigint' ? `#${v}` : v)).replace(/"#(\d+)"/g, '$1'));

const packages = process.argv[2] ?? '.'; // the directory that has node_modules
const require = createRequire(`${path.resolve(packages)}/`);
let Redis, Redlock;
try {
  ({ Redis } = require('ioredis'));
  Redlock = require('redlock').default;
} catch (e) {
  say('absent', { why: `node-redlock: ${e.message.split('\n')[0]}` });
  process.exit(0);
}
const version = JSON.parse(readFileSync(path.join(packages, 'node_modules/redlock/package.json'), 'utf8')).version;

let redlock;
let clients = [];
const holds = new Map();
const left = (lock) => BigInt(Math.max(0, lock.expiration - Date.now())) * 1_000_000n;

function hello({ servers }) {
  clients = servers.map((url) => new Redis(url));
  clients.forEach((client) => client.on('error', () => {}));
  if (clients.length > 0) {
    redlock = new Redlock(clients);
    redlock.on('error', () => {});
  }
  say('hello', {
    protocol: 1, library: 'node-redlock', version, topologies: ['one', 'quorum'], kinds: ['lock'],
    features: ['validity', 'names'], options: {},
  });
}

// The library tries 11 times in about 2 s by default; with `wait_ms` 0 it tries once.
async function acquire({ id, names, lease_ms, wait_ms }) {
  const asked_ns = clock();
  try {
    const settings = wait_ms === 0 ? { retryCount: 0 } : {};
    const lock = await redlock.acquire(names, lease_ms, settings);
    const heard_ns = clock();
    holds.set(id, lock);
    say('granted', { id, asked_ns, heard_ns, valid_for_ns: left(lock) });
  } catch (e) {
    const votes = await Promise.all((e.attempts ?? []).map((attempt) => attempt));
    // `held`: a server said so, and none failed otherwise.
    const against = votes.flatMap((vote) => [...vote.votesAgainst.values()]);
    const held = against.length > 0 && against.some((error) => error.name === 'ResourceLockedError');
    say('refused', { id, asked_ns, heard_ns: clock(), held, why: e.message });
  }
}

function check({ id }) {
  const now = clock();
  const lock = holds.get(id);
  say('checked', { id, asked_ns: now, heard_ns: now, valid: lock.expiration > Date.now(), valid_for_ns: left(lock) });
}

async function release({ id }) {
  const asked_ns = clock();
  let why = '';
  try {
    await holds.get(id).release();
  } catch (e) {
    why = e.message;
  }
  holds.delete(id);
  say('released', { id, asked_ns, heard_ns: clock(), ok: why === '', why });
}

const orders = { hello, acquire, check, release };
readline.createInterface({ input: process.stdin })
  .on('line', (text) => {
    const order = JSON.parse(text);
    orders[order.order]?.(order);
  })
  .on('close', () => process.exit(0)); // the lab has ended: give nothing back
