// Appends two lines to a file, under a lock: node invoice.mjs HOST:PORT[,HOST:PORT...] NAME FILE
import { appendFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import Redlock from 'redlock';

const [servers, name, file] = process.argv.slice(2);
const clients = servers.split(',').map((server) => new Redis(`redis://${server}`));
// It polls: retryCount * retryDelay is how long it waits.
const redlock = new Redlock(clients, { retryCount: 600, retryDelay: 100, retryJitter: 50 });

const write = (what) => appendFile(file, `node ${process.pid} ${what}\n`);

// Renewed until the function returns; the signal tells that a renewal failed.
await redlock.using([name], 10_000, async (signal) => {
  await write('begin');
  await sleep(50);
  if (signal.aborted) throw signal.error;
  await write('end');
});
await redlock.quit();
