"""Drives aiokafka."""

import asyncio
import logging
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from driver import Refused, Unsupported, decode, headers_of, record, serve_async

ADDRESS = sys.argv[1]


def check(code):
    if code:
        raise Refused(code)


def build(admin):
    async def cluster(_):
        c = await admin.describe_cluster()
        return {"brokers": len(c["brokers"]), "cluster": bool(c.get("cluster_id")), "controller": c["controller_id"] >= 0}

    async def create(r):
        t = NewTopic(r["topic"], r["partitions"], 1, topic_configs=r.get("configs") or {})
        answer = await admin.create_topics([t])
        check(answer.topic_errors[0][1])

    async def delete(r):
        answer = await admin.delete_topics([r["topic"]])
        check(answer.topic_error_codes[0][1])

    async def describe(r):
        # Its metadata request has no word against creation, so asking would make the topic.
        raise Unsupported

    async def add_partitions(r):
        answer = await admin.create_partitions({r["topic"]: NewPartitions(r["partitions"])})
        check(answer.topic_errors[0][1])

    def resource(r, changes):
        kind = ConfigResourceType.TOPIC if r["kind"] == "topic" else ConfigResourceType.BROKER
        return ConfigResource(kind, r["name"], changes)

    async def configs(r):
        (answer,) = await admin.describe_configs([resource(r, {k: None for k in r["keys"]})])
        error, _, _, _, entries = answer.resources[0]
        check(error)
        return {"configs": {e[0]: f"{e[1]} ({e[3]})" for e in entries}}

    async def alter(r):
        if r["mode"] != "legacy":
            raise Unsupported
        (answer,) = await admin.alter_configs([resource(r, {c["key"]: c["value"] for c in r["changes"]})])
        check(answer.resources[0][0])

    async def produce(r):
        if any(x["key"] is None and x["value"] is None for x in r["records"]):
            raise Unsupported  # It sends no record of nothing.
        settings = {
            "bootstrap_servers": ADDRESS, "acks": {"0": 0, "1": 1, "all": "all"}[r["acks"]], "linger_ms": 20,
            "compression_type": None if r["codec"] == "none" else r["codec"],
            "enable_idempotence": r.get("idempotent", False), "request_timeout_ms": 20000,
        }
        if "max_bytes" in r:
            settings["max_request_size"] = settings["max_batch_size"] = r["max_bytes"]
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        try:
            sent = [
                await producer.send(
                    r["topic"], partition=r["partition"], key=decode(x["key"]), value=decode(x["value"]),
                    headers=headers_of(x), timestamp_ms=x["timestamp"] or None)
                for x in r["records"]
            ]
            done = [await f for f in sent]
            return {"offsets": [m.offset for m in done if m is not None and m.offset >= 0]}
        finally:
            await producer.stop()

    async def consumer(r):
        settings = {"bootstrap_servers": ADDRESS, "group_id": None, "auto_offset_reset": "none", "fetch_max_wait_ms": 100}
        if "isolation" in r:
            settings["isolation_level"] = r["isolation"]
        if "max_bytes" in r:
            settings["fetch_max_bytes"] = r["max_bytes"]
            settings["max_partition_fetch_bytes"] = r["partition_max_bytes"]
        c = AIOKafkaConsumer(**settings)
        await c.start()
        tp = TopicPartition(r["topic"], r["partition"])
        c.assign([tp])
        return c, tp

    async def consume(r):
        c, tp = await consumer(r)
        try:
            c.seek(tp, r["offset"])
            records = []
            while len(records) < r["count"]:
                m = await c.getone()
                records.append(record(m.offset, m.timestamp, m.key, m.value, m.headers))
            return {"records": records}
        finally:
            await c.stop()

    async def group_consume(r):
        c = AIOKafkaConsumer(
            r["topic"], bootstrap_servers=ADDRESS, group_id=r["group"], auto_offset_reset="earliest",
            enable_auto_commit=False)
        await c.start()
        try:
            records = []
            while len(records) < r["count"]:
                m = await c.getone()
                records.append({"offset": m.offset})
            await c.commit({TopicPartition(m.topic, m.partition): m.offset + 1})
            return {"records": records}
        finally:
            await c.stop()

    producers = {}  # those of a scenario's transactions, by the names it gave them

    async def transactional(name):
        p = AIOKafkaProducer(bootstrap_servers=ADDRESS, transactional_id=name, linger_ms=20, request_timeout_ms=20000)
        await p.start()
        return p

    async def transaction(r):
        if r["step"] == "begin":
            if r["name"] not in producers:
                producers[r["name"]] = await transactional(r["id"])
            await producers[r["name"]].begin_transaction()
        elif r["step"] == "send":
            p = producers[r["name"]]
            sent = [
                await p.send(r["topic"], partition=r["partition"], key=decode(x["key"]), value=decode(x["value"]))
                for x in r["records"]
            ]
            for f in sent:
                await f
        elif r["step"] == "commit":
            await producers[r["name"]].commit_transaction()
        elif r["step"] == "abort":
            await producers[r["name"]].abort_transaction()
        else:  # close
            await producers.pop(r["name"]).stop()

    async def copy(r):
        producer = await transactional(r["id"])
        c = AIOKafkaConsumer(
            r["topic"], bootstrap_servers=ADDRESS, group_id=r["group"], auto_offset_reset="earliest",
            enable_auto_commit=False, isolation_level="read_committed")
        await c.start()
        try:
            await producer.begin_transaction()
            records = []
            while len(records) < r["count"]:
                m = await c.getone()
                records.append({"offset": m.offset})
                await producer.send_and_wait(r["name"], partition=0, key=m.key, value=m.value)
            await producer.send_offsets_to_transaction({TopicPartition(m.topic, m.partition): m.offset + 1}, r["group"])
            if r["step"] == "commit":
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
            return {"records": records}
        finally:
            await c.stop()
            await producer.stop()

    async def groups(_):
        return {"names": [g[0] for g in await admin.list_consumer_groups()]}

    async def offsets(r):
        if r["at"] == "max-timestamp":
            raise Unsupported
        c, tp = await consumer(r)
        try:
            if r["at"] == "earliest":
                return {"offset": (await c.beginning_offsets([tp]))[tp]}
            if r["at"] == "latest":
                return {"offset": (await c.end_offsets([tp]))[tp]}
            found = (await c.offsets_for_times({tp: int(r["at"])}))[tp]
            return {"offset": -1 if found is None else found.offset}
        finally:
            await c.stop()

    async def delete_records(r):
        tp = TopicPartition(r["topic"], r["partition"])
        found = await admin.delete_records({tp: RecordsToDelete(r["offset"])})
        return {"offset": found[tp]}

    async def topics(_):
        return {"names": await admin.list_topics()}

    return {
        "cluster": cluster, "topics": topics, "create": create, "delete": delete, "describe": describe,
        "add-partitions": add_partitions, "configs": configs, "alter": alter, "produce": produce, "consume": consume,
        "offsets": offsets, "delete-records": delete_records, "group-consume": group_consume, "groups": groups,
        "transaction": transaction, "copy": copy,
    }


async def main():
    logging.disable(logging.CRITICAL)
    admin = AIOKafkaAdminClient(bootstrap_servers=ADDRESS)
    await admin.start()
    try:
        await serve_async(build(admin))
    finally:
        await admin.close()


asyncio.run(main())
