"""Drives kafka-python."""

import logging
import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import for_code

from driver import Refused, Unsupported, decode, headers_of, record, serve

logging.disable(logging.CRITICAL)
ADDRESS = sys.argv[1]
admin = KafkaAdminClient(bootstrap_servers=ADDRESS)


def describe(r):
    (t,) = admin.describe_topics([r["topic"]])
    if t["error_code"]:
        raise for_code(t["error_code"])
    return {
        "partitions": len(t["partitions"]), "replicas": len(t["partitions"][0]["replica_nodes"]),
        "internal": t["is_internal"],
    }


def create(r):
    admin.create_topics({
        r["topic"]: {"num_partitions": r["partitions"], "replication_factor": 1, "configs": r.get("configs") or {}},
    })


def resource(r, changes):
    kind = ConfigResourceType.TOPIC if r["kind"] == "topic" else ConfigResourceType.BROKER
    return ConfigResource(kind, r["name"], changes)


def configs(r):
    found = admin.describe_configs([resource(r, None)], config_filter="all")[r["kind"]][r["name"]]
    return {"configs": {k: f"{c['value']} ({c['config_source']})" for k, c in found.items() if k in r["keys"]}}


def refuse(result):
    """Raises what the client gives in words only; they begin with the code: "[Error 40] …"."""
    digits = "".join(ch for ch in str(result).split("]")[0] if ch.isdigit())
    raise Refused(int(digits)) if digits else RuntimeError("refused")


def alter(r):
    incremental = r["mode"] == "incremental"
    changes = {c["key"]: (c["op"].upper(), c["value"]) if incremental else c["value"] for c in r["changes"]}
    result = admin.alter_configs([resource(r, changes)], incremental=incremental)[r["kind"]][r["name"]]
    if result != "OK":
        refuse(result)


def sendable(x):
    """The client sends no record of nothing and no header without value."""
    return (x["key"] is not None or x["value"] is not None) and all(v is not None for _, v in headers_of(x))


def produce(r):
    if not all(sendable(x) for x in r["records"]):
        raise Unsupported
    settings = {
        "bootstrap_servers": ADDRESS, "acks": {"0": 0, "1": 1, "all": "all"}[r["acks"]], "linger_ms": 20,
        "compression_type": None if r["codec"] == "none" else r["codec"],
        "enable_idempotence": r.get("idempotent", False), "max_block_ms": 20000,
    }
    if "max_bytes" in r:
        settings["max_request_size"] = settings["batch_size"] = r["max_bytes"]
    producer = KafkaProducer(**settings)
    try:
        sent = [
            producer.send(
                r["topic"], partition=r["partition"], key=decode(x["key"]), value=decode(x["value"]),
                headers=headers_of(x), timestamp_ms=x["timestamp"] or None)
            for x in r["records"]
        ]
        producer.flush(25)
        return {"offsets": [f.get(25).offset for f in sent]}
    finally:
        producer.close()


def consume(r):
    settings = {"bootstrap_servers": ADDRESS, "group_id": None, "auto_offset_reset": "none"}
    if "isolation" in r:
        settings["isolation_level"] = r["isolation"]
    if "max_bytes" in r:
        settings["fetch_max_bytes"] = r["max_bytes"]
        settings["max_partition_fetch_bytes"] = r["partition_max_bytes"]
    consumer = KafkaConsumer(**settings)
    records, deadline = [], time.monotonic() + 25
    try:
        tp = TopicPartition(r["topic"], r["partition"])
        consumer.assign([tp])
        consumer.seek(tp, r["offset"])
        while len(records) < r["count"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(records)} of {r['count']} records came")
            for ms in consumer.poll(200).values():
                records += [record(m.offset, m.timestamp, m.key, m.value, m.headers) for m in ms]
    finally:
        consumer.close()
    return {"records": records[: r["count"]]}


def group_consume(r):
    consumer = KafkaConsumer(
        r["topic"], bootstrap_servers=ADDRESS, group_id=r["group"], auto_offset_reset="earliest", enable_auto_commit=False)
    records, deadline = [], time.monotonic() + 25
    try:
        while len(records) < r["count"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(records)} of {r['count']} records came")
            for tp, ms in consumer.poll(200, max_records=r["count"] - len(records)).items():
                records += [{"offset": m.offset} for m in ms]
                consumer.commit({tp: OffsetAndMetadata(ms[-1].offset + 1, "", -1)})
    finally:
        consumer.close()
    return {"records": records}


producers = {}  # those of a scenario's transactions, by the names it gave them


def transactional(name):
    p = KafkaProducer(bootstrap_servers=ADDRESS, transactional_id=name, linger_ms=20, max_block_ms=20000)
    p.init_transactions()
    return p


def transaction(r):
    if r["step"] == "begin":
        if r["name"] not in producers:
            producers[r["name"]] = transactional(r["id"])
        producers[r["name"]].begin_transaction()
    elif r["step"] == "send":
        p = producers[r["name"]]
        sent = [
            p.send(r["topic"], partition=r["partition"], key=decode(x["key"]), value=decode(x["value"])) for x in r["records"]
        ]
        p.flush(25)
        for f in sent:
            f.get(25)
    elif r["step"] == "commit":
        producers[r["name"]].commit_transaction()
    elif r["step"] == "abort":
        producers[r["name"]].abort_transaction()
    else:  # close
        producers.pop(r["name"]).close(5)


def copy(r):
    producer = transactional(r["id"])
    consumer = KafkaConsumer(
        r["topic"], bootstrap_servers=ADDRESS, group_id=r["group"], auto_offset_reset="earliest", enable_auto_commit=False,
        isolation_level="read_committed")
    records, following, deadline = [], {}, time.monotonic() + 25
    try:
        producer.begin_transaction()
        while len(records) < r["count"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(records)} of {r['count']} records came")
            for tp, ms in consumer.poll(200, max_records=r["count"] - len(records)).items():
                for m in ms:
                    records.append({"offset": m.offset})
                    producer.send(r["name"], partition=0, key=m.key, value=m.value)
                    following[tp] = OffsetAndMetadata(m.offset + 1, "", -1)
        producer.send_offsets_to_transaction(following, consumer.group_metadata())
        if r["step"] == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    finally:
        consumer.close()
        producer.close(5)
    return {"records": records}


def delete_group(r):
    result = admin.delete_groups([r["group"]])[r["group"]]
    if result != "OK":
        refuse(result)


def offsets(r):
    special = {"latest": -1, "earliest": -2, "max-timestamp": -3}
    tp = TopicPartition(r["topic"], r["partition"])
    found = admin.list_partition_offsets({tp: special.get(r["at"]) or int(r["at"])})[tp]
    return {"offset": found.offset, "timestamp": found.timestamp}


def delete_records(r):
    tp = TopicPartition(r["topic"], r["partition"])
    return {"offset": admin.delete_records({tp: r["offset"]})[tp]["low_watermark"]}


def log_dirs(r):
    size = 0
    for broker in admin.describe_log_dirs([r["topic"]]):
        for d in broker["log_dirs"]:
            for t in d["topics"]:
                size += sum(p["partition_size"] for p in t["partitions"])
    return {"size": size}


def cluster(_):
    c = admin.describe_cluster()
    return {"brokers": len(c["brokers"]), "cluster": bool(c["cluster_id"]), "controller": c["controller_id"] >= 0}


serve({
    "cluster": cluster,
    "topics": lambda r: {"names": admin.list_topics()},
    "create": create,
    "delete": lambda r: admin.delete_topics([r["topic"]]) and None,
    "describe": describe,
    "add-partitions": lambda r: admin.create_partitions({r["topic"]: r["partitions"]}) and None,
    "configs": configs,
    "alter": alter,
    "produce": produce,
    "consume": consume,
    "offsets": offsets,
    "delete-records": delete_records,
    "group-consume": group_consume,
    "transaction": transaction,
    "copy": copy,
    "groups": lambda r: {"names": [g["group_id"] for g in admin.list_groups()]},
    "delete-group": delete_group,
    "log-dirs": log_dirs,
})
