"""Drives kcat, by one process for each operation."""

import json
import subprocess
import sys

from driver import Refused, Unsupported, decode, encode, serve

ADDRESS = sys.argv[1]
# What librdkafka says, by Kafka's code, for those that its words are the only trace of.
WORDS = {
    "Unknown topic or partition": 3, "Message size too large": 10, "Broker failed to validate record": 87,
    "Broker: Offset out of range": 1,
}


def kcat(*args, data=b""):
    """Runs kcat and returns what it printed."""
    done = subprocess.run(
        ["kcat", "-b", ADDRESS, *args], input=data, capture_output=True, timeout=30, check=False)
    said = done.stderr.decode(errors="replace")
    if done.returncode or "Delivery failed" in said or "ERROR" in said:
        for words, code in WORDS.items():
            if words in said:
                raise Refused(code)
        raise RuntimeError(said.strip().split("\n")[-1])
    return done.stdout


def metadata(*args):
    return json.loads(kcat("-L", "-J", *args))


def cluster(_):
    m = metadata()
    return {"brokers": len(m["brokers"]), "controller": m["controllerid"] >= 0}


def describe(r):
    (t,) = metadata("-t", r["topic"], "-X", "allow.auto.create.topics=false")["topics"]
    if t.get("error"):
        raise RuntimeError(t["error"].split(": ")[-1])
    return {"partitions": len(t["partitions"]), "replicas": len(t["partitions"][0]["replicas"])}


def produce(r):
    args = [
        "-P", "-t", r["topic"], "-p", str(r["partition"]), "-X", "message.timeout.ms=20000", "-X", "linger.ms=20",
        "-X", f"acks={r['acks']}", "-X", f"enable.idempotence={str(r.get('idempotent', False)).lower()}",
        "-z", r["codec"],
    ]
    if "max_bytes" in r:
        args += ["-X", f"message.max.bytes={r['max_bytes']}"]
    # Its line format has no null apart from empty, an empty line is no record, and its headers are
    # those of all records.
    for x in r["records"]:
        if x["key"] is None and x["value"] is None:
            raise Unsupported
        if x["timestamp"] or x["key"] == "" or x["value"] == "" or x.get("headers"):
            raise Unsupported
    # Records of one shape go in one run, so that runs keep the order.
    runs = []
    for x in r["records"]:
        shape = (x["key"] is None, x["value"] is None)
        if not runs or runs[-1][0] != shape:
            runs.append((shape, []))
        runs[-1][1].append(x)
    for (no_key, no_value), records in runs:
        more = [] if no_key else ["-K", "\x01"]
        if no_value:
            more.append("-Z")
        lines = []
        for x in records:
            key = b"" if no_key else decode(x["key"]) + b"\x01"
            lines.append(key + (b"" if no_value else decode(x["value"])) + b"\x02")
        kcat(*args, *more, "-D", "\x02", data=b"".join(lines))
    return {}


def consume(r):
    args = [
        "-C", "-q", "-t", r["topic"], "-p", str(r["partition"]), "-o", str(r["offset"]), "-c", str(r["count"]),
        "-X", "fetch.wait.max.ms=100",
        # Lengths tell null from empty, and make any byte safe.
        "-f", "%o %T %K %S %R%h\x02%k%s",
    ]
    if "isolation" in r:
        args += ["-X", f"isolation.level={r['isolation']}"]
    if "max_bytes" in r:
        n = max(r["max_bytes"], 1000)
        args += [
            "-X", f"max.partition.fetch.bytes={r['partition_max_bytes']}", "-X", f"fetch.max.bytes={n}",
            "-X", f"message.max.bytes={n}",
        ]
    out, records = kcat(*args), []
    while out:
        offset, timestamp, key_len, value_len, rest = out.split(b" ", 4)
        rest = rest[4:]  # the value's length again, in four bytes
        headers, rest = rest.split(b"\x02", 1)
        k, v = max(int(key_len), 0), max(int(value_len), 0)
        fields = []
        for h in headers.split(b",") if headers else []:
            name, _, value = h.partition(b"=")
            fields.append({"name": name.decode(), "value": None if value == b"NULL" else encode(value)})
        records.append({
            "offset": int(offset), "timestamp": int(timestamp), "headers": fields,
            "key": None if int(key_len) < 0 else encode(rest[:k]),
            "value": None if int(value_len) < 0 else encode(rest[k:k + v]),
        })
        out = rest[k + v:]
    return {"records": records}


def group_consume(r):
    out = kcat(
        "-G", r["group"], "-q", "-c", str(r["count"]), "-X", "auto.offset.reset=earliest", "-f", "%o\n", r["topic"])
    return {"records": [{"offset": int(line)} for line in out.decode().split()]}


def offsets(r):
    if r["at"] == "max-timestamp":
        raise Unsupported
    at = {"earliest": "-2", "latest": "-1"}.get(r["at"], r["at"])
    out = kcat("-Q", "-t", f"{r['topic']}:{r['partition']}:{at}").decode()
    return {"offset": int(out.rsplit(" ", 1)[-1])}


serve({
    "cluster": cluster,
    "topics": lambda r: {"names": [t["topic"] for t in metadata()["topics"]]},
    "describe": describe,
    "produce": produce,
    "consume": consume,
    "offsets": offsets,
    "group-consume": group_consume,
})
