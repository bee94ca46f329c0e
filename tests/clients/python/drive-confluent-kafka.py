"""Drives confluent-kafka, which is librdkafka underneath."""

import sys
import time
import uuid

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType,
)

from driver import Refused, decode, headers_of, record, serve

BROKER = {"bootstrap.servers": sys.argv[1], "log_level": 0}
admin = AdminClient(BROKER)


def coded(error):
    """A broker's error with its code; the library's own errors in words."""
    if error.code() > 0:
        return Refused(error.code())
    return RuntimeError(error.name())


def wait(futures):
    """The result of the one future in a dictionary."""
    (future,) = futures.values()
    try:
        return future.result(25)
    except KafkaException as e:
        raise coded(e.args[0]) from None


def cluster(_):
    d = admin.describe_cluster().result(25)
    return {"brokers": len(d.nodes), "cluster": bool(d.cluster_id), "controller": d.controller is not None}


def create(r):
    wait(admin.create_topics([NewTopic(r["topic"], r["partitions"], 1, config=r.get("configs") or {})]))


def describe(r):
    d = wait(admin.describe_topics(TopicCollection([r["topic"]])))
    return {"partitions": len(d.partitions), "replicas": len(d.partitions[0].replicas), "internal": d.is_internal}


def resource(r, **more):
    kind = ResourceType.TOPIC if r["kind"] == "topic" else ResourceType.BROKER
    return ConfigResource(kind, r["name"], **more)


def configs(r):
    entries = wait(admin.describe_configs([resource(r)]))
    return {"configs": {k: f"{e.value} ({e.source})" for k, e in entries.items() if k in r["keys"]}}


def alter(r):
    if r["mode"] == "legacy":
        wait(admin.alter_configs([resource(r, set_config={c["key"]: c["value"] for c in r["changes"]})]))
        return
    entries = [
        ConfigEntry(c["key"], c["value"], incremental_operation=AlterConfigOpType[c["op"].upper()])
        for c in r["changes"]
    ]
    wait(admin.incremental_alter_configs([resource(r, incremental_configs=entries)]))


def produce(r):
    settings = dict(BROKER, **{
        "compression.type": r["codec"], "acks": r["acks"], "linger.ms": 20,
        "enable.idempotence": r.get("idempotent", False), "message.timeout.ms": 20000,
    })
    if "max_bytes" in r:
        settings["message.max.bytes"] = r["max_bytes"]
    producer = Producer(settings)
    offsets, errors = [], []

    def done(error, message):
        if error is not None:
            errors.append(error)
        else:
            offsets.append(message.offset())

    for x in r["records"]:
        more = {"timestamp": x["timestamp"]} if x["timestamp"] else {}
        producer.produce(
            r["topic"], partition=r["partition"], key=decode(x["key"]), value=decode(x["value"]),
            headers=headers_of(x), on_delivery=done, **more)
    producer.flush(25)
    if errors:
        raise coded(errors[0])
    return {"offsets": offsets}


def consume(r):
    settings = dict(BROKER, **{
        "group.id": f"matrix-{uuid.uuid4()}", "enable.auto.commit": False, "auto.offset.reset": "error",
        "fetch.wait.max.ms": 100,
    })
    if "isolation" in r:
        settings["isolation.level"] = r["isolation"]  # Read committed unless told otherwise.
    if "max_bytes" in r:
        settings["max.partition.fetch.bytes"] = r["partition_max_bytes"]
        settings["message.max.bytes"] = settings["fetch.max.bytes"] = max(r["max_bytes"], 1000)
    consumer = Consumer(settings)
    records, deadline = [], time.monotonic() + 25
    try:
        consumer.assign([TopicPartition(r["topic"], r["partition"], r["offset"])])
        while len(records) < r["count"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(records)} of {r['count']} records came")
            m = consumer.poll(0.2)
            if m is None:
                continue
            if m.error():
                raise coded(m.error())
            records.append(record(m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers()))
    finally:
        consumer.close()
    return {"records": records}


def group_consume(r):
    consumer = Consumer(dict(BROKER, **{
        "group.id": r["group"], "enable.auto.commit": False, "auto.offset.reset": "earliest",
    }))
    records, deadline = [], time.monotonic() + 25
    try:
        consumer.subscribe([r["topic"]])
        while len(records) < r["count"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(records)} of {r['count']} records came")
            m = consumer.poll(0.2)
            if m is None:
                continue
            if m.error():
                raise coded(m.error())
            records.append({"offset": m.offset()})
            if len(records) == r["count"]:
                consumer.commit(message=m, asynchronous=False)
    finally:
        consumer.close()
    return {"records": records}


producers = {}  # those of a scenario's transactions, by the names it gave them


def transactional(name):
    p = Producer(dict(BROKER, **{
        "transactional.id": name, "linger.ms": 20, "message.timeout.ms": 20000, "transaction.timeout.ms": 30000,
    }))
    p.init_transactions(25)
    return p


def send(p, topic, partition, records):
    errors = []
    for key, value in records:
        p.produce(topic, partition=partition, key=key, value=value, on_delivery=lambda e, _: e and errors.append(e))
    p.flush(25)
    if errors:
        raise coded(errors[0])


def transaction(r):
    try:
        if r["step"] == "begin":
            if r["name"] not in producers:
                producers[r["name"]] = transactional(r["id"])
            producers[r["name"]].begin_transaction()
        elif r["step"] == "send":
            records = [(decode(x["key"]), decode(x["value"])) for x in r["records"]]
            send(producers[r["name"]], r["topic"], r["partition"], records)
        elif r["step"] == "commit":
            producers[r["name"]].commit_transaction(25)
        elif r["step"] == "abort":
            producers[r["name"]].abort_transaction(25)
        else:  # close
            del producers[r["name"]]
    except KafkaException as e:
        raise coded(e.args[0]) from None


def copy(r):
    producer = transactional(r["id"])
    consumer = Consumer(dict(BROKER, **{
        "group.id": r["group"], "enable.auto.commit": False, "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }))
    records, deadline = [], time.monotonic() + 25
    try:
        producer.begin_transaction()
        consumer.subscribe([r["topic"]])
        while len(records) < r["count"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(records)} of {r['count']} records came")
            m = consumer.poll(0.2)
            if m is None:
                continue
            if m.error():
                raise coded(m.error())
            records.append({"offset": m.offset()})
            send(producer, r["name"], 0, [(m.key(), m.value())])
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 25)
        if r["step"] == "commit":
            producer.commit_transaction(25)
        else:
            producer.abort_transaction(25)
    except KafkaException as e:
        raise coded(e.args[0]) from None
    finally:
        consumer.close()
    return {"records": records}


def offsets(r):
    spec = {
        "earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest, "max-timestamp": OffsetSpec.max_timestamp,
    }.get(r["at"], lambda: OffsetSpec.for_timestamp(int(r["at"])))()
    found = wait(admin.list_offsets({TopicPartition(r["topic"], r["partition"]): spec}))
    return {"offset": found.offset, "timestamp": found.timestamp}


def delete_records(r):
    found = wait(admin.delete_records([TopicPartition(r["topic"], r["partition"], r["offset"])]))
    return {"offset": found.low_watermark}


serve({
    "cluster": cluster,
    "topics": lambda r: {"names": list(admin.list_topics(timeout=20).topics)},
    "create": create,
    "delete": lambda r: wait(admin.delete_topics([r["topic"]])),
    "describe": describe,
    "add-partitions": lambda r: wait(admin.create_partitions([NewPartitions(r["topic"], r["partitions"])])),
    "configs": configs,
    "alter": alter,
    "produce": produce,
    "consume": consume,
    "offsets": offsets,
    "delete-records": delete_records,
    "group-consume": group_consume,
    "transaction": transaction,
    "copy": copy,
    "groups": lambda r: {"names": [g.group_id for g in admin.list_consumer_groups().result(25).valid]},
    "delete-group": lambda r: wait(admin.delete_consumer_groups([r["group"]])),
})
