// Run by a Node that finds the JavaScript SDK: what its users do most.
const assert = require("node:assert");
const { Sandbox, CommandExitError } = require("e2b");

async function main() {
  const made = await Sandbox.create({ timeoutMs: 60_000, metadata: { a: "ä & b" }, envs: { X: "y" } });
  const seen = [];
  const result = await made.commands.run("echo $X; echo err >&2", { onStdout: (text) => seen.push(text) });
  assert.deepStrictEqual([result.stdout, result.stderr, seen], ["y\n", "err\n", ["y\n"]]);
  await assert.rejects(made.commands.run("exit 3"), (error) => error instanceof CommandExitError && error.exitCode === 3);

  await made.files.write("folder/file", "content");
  await made.files.write([{ path: "/tmp/a", data: "1" }, { path: "/tmp/b", data: new Blob(["2"]) }]);
  assert.strictEqual(await made.files.read("folder/file"), "content");
  assert.deepStrictEqual(await made.files.read("/tmp/b", { format: "bytes" }), new Uint8Array([50]));
  assert.deepStrictEqual((await made.files.list("folder")).map((it) => it.name), ["file"]);
  assert.strictEqual(await made.files.exists("nowhere"), false);
  const events = [];
  const watch = await made.files.watchDir("folder", (event) => events.push(event.name));
  await made.files.remove("folder/file");
  while (!events.includes("file")) await new Promise((resolve) => setTimeout(resolve, 10));
  await watch.stop();

  const handle = await made.commands.run("cat", { background: true, stdin: true });
  await made.commands.sendStdin(handle.pid, "hello\n");
  await made.commands.closeStdin(handle.pid);
  assert.strictEqual((await handle.wait()).stdout, "hello\n");
  const sleeper = await made.commands.run("sleep 60", { background: true });
  assert.strictEqual(await sleeper.kill(), true);

  const signed = await fetch(await made.downloadUrl("/tmp/a"));
  assert.strictEqual(await signed.text(), "1");
  const listed = await Sandbox.list({ query: { metadata: { a: "ä & b" } } }).nextItems();
  assert.deepStrictEqual(listed.map((it) => it.sandboxId), [made.sandboxId]);
  await made.pause();
  assert.strictEqual((await made.getInfo()).state, "paused");
  await made.connect();
  assert.strictEqual(await made.isRunning(), true);
  assert.strictEqual(await made.kill(), true);
  assert.strictEqual(await made.isRunning(), false);
  console.log("all is well");
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
