// Drives @platformatic/kafka.

import { randomUUID } from 'node:crypto'
import zlib from 'node:zlib'
import { Admin, Consumer, Producer } from '@platformatic/kafka'
import { decode, encode, serve, Unsupported } from './driver.mjs'

const base = { clientId: 'matrix', bootstrapBrokers: [process.argv[2]], retries: 8, retryDelay: 100, timeout: 10000 }
const admin = new Admin(base)
const kinds = { topic: 2, broker: 4 }

async function produce (r) {
  if (r.codec === 'zstd' && !zlib.zstdCompressSync) throw new Unsupported() // Node's own, from 22.15 on.
  const producer = new Producer({ ...base, autocreateTopics: true })
  try {
    const sent = await producer.send({
      acks: { 0: 0, 1: 1, all: -1 }[r.acks],
      compression: r.codec,
      idempotent: r.idempotent === true,
      autocreateTopics: true,
      messages: r.records.map(x => ({
        topic: r.topic,
        partition: r.partition,
        key: decode(x.key) ?? undefined,
        value: decode(x.value) ?? undefined,
        ...(x.timestamp ? { timestamp: BigInt(x.timestamp) } : {}),
        headers: new Map((x.headers ?? []).map(h => [Buffer.from(h.name), decode(h.value)]))
      }))
    })
    const first = sent.offsets?.[0]?.offset
    return { offsets: first === undefined ? [] : r.records.map((x, i) => Number(first) + i) }
  } finally {
    await producer.close()
  }
}

async function consume (r) {
  const consumer = new Consumer({ ...base, groupId: `matrix-${randomUUID()}`, maxWaitTime: 200, autocommit: false })
  const records = []
  try {
    const { topics } = await consumer.metadata({ topics: [r.topic] })
    const offsets = []
    for (let p = 0; p < topics.get(r.topic).partitionsCount; p++) {
      offsets.push({ topic: r.topic, partition: p, offset: BigInt(p === r.partition ? r.offset : 0) })
    }
    const stream = await consumer.consume({
      topics: [r.topic],
      mode: 'manual',
      offsets,
      isolationLevel: r.isolation === 'read_uncommitted' ? 0 : 1,
      ...(r.max_bytes ? { maxBytes: r.max_bytes, maxBytesPerPartition: r.partition_max_bytes } : {})
    })
    for await (const m of stream) {
      if (m.partition !== r.partition || Number(m.offset) < r.offset) continue
      records.push({
        offset: Number(m.offset),
        timestamp: Number(m.timestamp),
        key: encode(m.key),
        value: encode(m.value),
        headers: [...m.headers].map(([name, value]) => ({ name: name.toString(), value: encode(value) }))
      })
      if (records.length === r.count) break
    }
    return { records }
  } finally {
    await consumer.close(true)
  }
}

async function groupConsume (r) {
  const consumer = new Consumer({ ...base, groupId: r.group, maxWaitTime: 200, autocommit: false })
  const records = []
  try {
    const stream = await consumer.consume({ topics: [r.topic], mode: 'committed', fallbackMode: 'earliest' })
    for await (const m of stream) {
      records.push({ offset: Number(m.offset) })
      if (records.length === r.count) {
        await m.commit()
        break
      }
    }
    return { records }
  } finally {
    await consumer.close(true)
  }
}

// Those of a scenario's transactions, by the names it gave them.
const producers = new Map()

async function transaction (r) {
  let p = producers.get(r.name)
  switch (r.step) {
    case 'begin':
      if (!p) {
        p = { producer: new Producer({ ...base, idempotent: true, transactionalId: r.id }) }
        producers.set(r.name, p)
      }
      p.running = await p.producer.beginTransaction()
      break
    case 'send':
      await p.running.send({
        messages: r.records.map(x => ({ topic: r.topic, partition: r.partition, key: decode(x.key), value: decode(x.value) }))
      })
      break
    case 'commit':
      await p.running.commit()
      break
    case 'abort':
      await p.running.abort()
      break
    default: // close
      producers.delete(r.name)
      await p.producer.close(true)
  }
}

async function copy (r) {
  const producer = new Producer({ ...base, idempotent: true, transactionalId: r.id })
  const consumer = new Consumer({ ...base, groupId: r.group, maxWaitTime: 200, autocommit: false })
  const records = []
  try {
    const stream = await consumer.consume({ topics: [r.topic], mode: 'committed', fallbackMode: 'earliest' })
    const running = await producer.beginTransaction()
    await running.addConsumer(consumer)
    for await (const m of stream) {
      records.push({ offset: Number(m.offset) })
      await running.send({ messages: [{ topic: r.name, partition: 0, key: m.key, value: m.value }] })
      if (records.length === r.count) {
        await running.addOffset(m)
        break
      }
    }
    await (r.step === 'commit' ? running.commit() : running.abort())
    return { records }
  } finally {
    await consumer.close(true)
    await producer.close(true)
  }
}

async function offsets (r) {
  const special = { latest: -1n, earliest: -2n, 'max-timestamp': -3n }
  const timestamp = special[r.at] ?? BigInt(r.at)
  const [t] = await admin.listOffsets({
    topics: [{ name: r.topic, partitions: [{ partitionIndex: r.partition, timestamp }] }]
  })
  return { offset: Number(t.partitions[0].offset), timestamp: Number(t.partitions[0].timestamp) }
}

await serve({
  cluster: async () => {
    const m = await admin.metadata({ topics: [] })
    return { brokers: m.brokers.size, cluster: Boolean(m.id), controller: m.controllerId >= 0 }
  },
  topics: async () => ({ names: await admin.listTopics() }),
  create: async r => {
    const configs = Object.entries(r.configs ?? {}).map(([name, value]) => ({ name, value }))
    await admin.createTopics({ topics: [r.topic], partitions: r.partitions, replicas: 1, configs })
  },
  delete: r => admin.deleteTopics({ topics: [r.topic] }).then(() => ({})),
  describe: async r => {
    const { topics } = await admin.metadata({ topics: [r.topic], autocreateTopics: false, forceUpdate: true })
    const t = topics.get(r.topic)
    return { partitions: t.partitionsCount, replicas: t.partitions[0].replicas.length }
  },
  'add-partitions': r => admin.createPartitions({
    topics: [{ name: r.topic, count: r.partitions, assignments: null }]
  }).then(() => ({})),
  configs: async r => {
    const [res] = await admin.describeConfigs({
      resources: [{ resourceType: kinds[r.kind], resourceName: r.name, configurationKeys: r.keys }]
    })
    const configs = {}
    for (const c of res.configs) configs[c.name] = `${c.value} (${c.configSource})`
    return { configs }
  },
  alter: async r => {
    const resource = { resourceType: kinds[r.kind], resourceName: r.name }
    if (r.mode === 'legacy') {
      await admin.alterConfigs({
        resources: [{ ...resource, configs: r.changes.map(c => ({ name: c.key, value: c.value })) }]
      })
      return
    }
    const ops = { set: 0, delete: 1, append: 2, subtract: 3 }
    await admin.incrementalAlterConfigs({
      resources: [{
        ...resource,
        configs: r.changes.map(c => ({
          name: c.key, configOperation: ops[c.op], ...(c.value === null ? {} : { value: c.value })
        }))
      }]
    })
  },
  produce,
  consume,
  offsets,
  'group-consume': groupConsume,
  transaction,
  copy,
  groups: async () => ({ names: [...(await admin.listGroups()).keys()] }),
  'delete-group': r => admin.deleteGroups({ groups: [r.group] }).then(() => ({})),
  'delete-records': async r => {
    const [t] = await admin.deleteRecords({
      topics: [{ name: r.topic, partitions: [{ partition: r.partition, offset: BigInt(r.offset) }] }]
    })
    return { offset: Number(t.partitions[0].lowWatermark) }
  },
  'log-dirs': async r => {
    const brokers = await admin.describeLogDirs({ topics: [{ name: r.topic, partitions: [0] }] })
    let size = 0
    for (const b of brokers) {
      for (const dir of b.results) {
        for (const t of dir.topics) for (const p of t.partitions) size += Number(p.partitionSize)
      }
    }
    return { size }
  }
}, function code (e) {
  if (e instanceof Unsupported) return
  if (typeof e.apiCode === 'number') return e.apiCode
  for (const inner of [...(e.errors ?? []), e.cause].filter(Boolean)) {
    const found = code(inner)
    if (found) return found
  }
})
