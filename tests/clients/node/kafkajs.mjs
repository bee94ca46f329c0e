// Drives kafkajs.

import { randomUUID } from 'node:crypto'
import kafkajs from 'kafkajs'
import { decode, encode, Refused, serve, Unsupported } from './driver.mjs'

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel, Partitioners } = kafkajs
const kafka = new Kafka({
  brokers: [process.argv[2]],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, retries: 5 }
})
const admin = kafka.admin()
await admin.connect()

const kind = r => (r.kind === 'topic' ? ConfigResourceTypes.TOPIC : ConfigResourceTypes.BROKER)
const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }

async function produce (r) {
  if (!(r.codec in codecs)) throw new Unsupported()
  const producer = kafka.producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    allowAutoTopicCreation: true,
    idempotent: r.idempotent === true,
    ...(r.idempotent ? { maxInFlightRequests: 1 } : {})
  })
  await producer.connect()
  try {
    const sent = await producer.send({
      topic: r.topic,
      acks: { 0: 0, 1: 1, all: -1 }[r.acks],
      compression: codecs[r.codec],
      messages: r.records.map(x => ({
        key: decode(x.key),
        value: decode(x.value),
        partition: r.partition,
        ...(x.timestamp ? { timestamp: String(x.timestamp) } : {}),
        headers: collect(x.headers)
      }))
    })
    // The client tells the first offset only.
    const base = Number(sent[0]?.baseOffset ?? -1)
    return { offsets: base < 0 ? [] : r.records.map((x, i) => base + i) }
  } finally {
    await producer.disconnect()
  }
}

function collect (headers) {
  const out = {}
  for (const h of headers ?? []) {
    const value = decode(h.value)
    if (value === null) throw new Unsupported()
    if (h.name in out) out[h.name] = [].concat(out[h.name], value)
    else out[h.name] = value
  }
  return out
}

async function consume (r) {
  const consumer = kafka.consumer({
    groupId: `matrix-${randomUUID()}`,
    allowAutoTopicCreation: false,
    maxWaitTimeInMs: 200,
    readUncommitted: r.isolation === 'read_uncommitted', // It reads committed records unless told otherwise.
    ...(r.max_bytes ? { maxBytes: r.max_bytes, maxBytesPerPartition: r.partition_max_bytes } : {})
  })
  const records = []
  try {
    await consumer.connect()
    await consumer.subscribe({ topic: r.topic, fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, e => reject(e.payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          if (partition !== r.partition || Number(message.offset) < r.offset || records.length >= r.count) return
          const headers = []
          for (const [name, value] of Object.entries(message.headers ?? {})) {
            for (const v of Array.isArray(value) ? value : [value]) headers.push({ name, value: encode(v) })
          }
          records.push({
            offset: Number(message.offset),
            timestamp: Number(message.timestamp),
            key: encode(message.key),
            value: encode(message.value),
            headers
          })
          if (records.length === r.count) resolve()
        }
      }).then(() => consumer.seek({ topic: r.topic, partition: r.partition, offset: String(r.offset) }), reject)
    })
  } finally {
    await consumer.disconnect()
  }
  return { records }
}

async function groupConsume (r) {
  const consumer = kafka.consumer({ groupId: r.group, allowAutoTopicCreation: false, maxWaitTimeInMs: 200 })
  const records = []
  try {
    await consumer.connect()
    await consumer.subscribe({ topic: r.topic, fromBeginning: true })
    let last
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, e => reject(e.payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          if (records.length >= r.count) return
          records.push({ offset: Number(message.offset) })
          last = { topic: r.topic, partition, offset: String(Number(message.offset) + 1) }
          if (records.length === r.count) resolve()
        }
      }).catch(reject)
    })
    await consumer.commitOffsets([last])
  } finally {
    await consumer.disconnect()
  }
  return { records }
}

// Those of a scenario's transactions, by the names it gave them.
const producers = new Map()

async function transactional (id) {
  const producer = kafka.producer({
    createPartitioner: Partitioners.DefaultPartitioner, transactionalId: id, idempotent: true, maxInFlightRequests: 1
  })
  await producer.connect()
  return producer
}

async function transaction (r) {
  let p = producers.get(r.name)
  switch (r.step) {
    case 'begin':
      if (!p) {
        p = { producer: await transactional(r.id) }
        producers.set(r.name, p)
      }
      p.running = await p.producer.transaction()
      break
    case 'send':
      await p.running.send({
        topic: r.topic,
        messages: r.records.map(x => ({ key: decode(x.key), value: decode(x.value), partition: r.partition }))
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
      await p.producer.disconnect()
  }
}

async function copy (r) {
  const producer = await transactional(r.id)
  const consumer = kafka.consumer({ groupId: r.group, allowAutoTopicCreation: false, maxWaitTimeInMs: 200 })
  const records = []
  try {
    const running = await producer.transaction()
    await consumer.connect()
    await consumer.subscribe({ topic: r.topic, fromBeginning: true })
    let last
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, e => reject(e.payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          if (records.length >= r.count) return
          records.push({ offset: Number(message.offset) })
          await running.send({ topic: r.name, messages: [{ key: message.key, value: message.value, partition: 0 }] })
          last = { partition, offset: String(Number(message.offset) + 1) }
          if (records.length === r.count) resolve()
        }
      }).catch(reject)
    })
    await running.sendOffsets({ consumerGroupId: r.group, topics: [{ topic: r.topic, partitions: [last] }] })
    await (r.step === 'commit' ? running.commit() : running.abort())
  } finally {
    await consumer.disconnect()
    await producer.disconnect()
  }
  return { records }
}

async function offsets (r) {
  let found
  switch (r.at) {
    case 'earliest':
    case 'latest': {
      const all = await admin.fetchTopicOffsets(r.topic)
      const p = all.find(p => p.partition === r.partition)
      found = r.at === 'earliest' ? p.low : p.high
      break
    }
    case 'max-timestamp':
      throw new Unsupported()
    default: {
      const all = await admin.fetchTopicOffsetsByTimestamp(r.topic, Number(r.at))
      found = all.find(p => p.partition === r.partition).offset
    }
  }
  return { offset: Number(found) }
}

await serve({
  cluster: async () => {
    const c = await admin.describeCluster()
    return { brokers: c.brokers.length, cluster: Boolean(c.clusterId), controller: c.controller !== null }
  },
  topics: async () => ({ names: await admin.listTopics() }),
  create: async r => {
    const configEntries = Object.entries(r.configs ?? {}).map(([name, value]) => ({ name, value }))
    const made = await admin.createTopics({
      waitForLeaders: false,
      topics: [{ topic: r.topic, numPartitions: r.partitions, replicationFactor: 1, configEntries }]
    })
    if (!made) throw new Error('not created: it exists')
  },
  delete: r => admin.deleteTopics({ topics: [r.topic] }),
  describe: async r => {
    const { topics: [t] } = await admin.fetchTopicMetadata({ topics: [r.topic] })
    return { partitions: t.partitions.length, replicas: t.partitions[0].replicas.length }
  },
  'add-partitions': r => admin.createPartitions({ topicPartitions: [{ topic: r.topic, count: r.partitions }] })
    .then(() => ({})),
  configs: async r => {
    const { resources: [res] } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: kind(r), name: r.name, configNames: r.keys }]
    })
    const configs = {}
    for (const e of res.configEntries) configs[e.configName] = `${e.configValue} (${e.configSource})`
    return { configs }
  },
  alter: async r => {
    if (r.mode !== 'legacy') throw new Unsupported()
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: kind(r), name: r.name, configEntries: r.changes.map(c => ({ name: c.key, value: c.value })) }]
    })
  },
  produce,
  consume,
  offsets,
  'group-consume': groupConsume,
  transaction,
  copy,
  groups: async () => ({ names: (await admin.listGroups()).groups.map(g => g.groupId) }),
  'delete-group': r => admin.deleteGroups([r.group]).then(() => ({}), e => {
    throw e.groups?.[0]?.errorCode ? new Refused(e.groups[0].errorCode) : e
  }),
  'delete-records': async r => {
    await admin.fetchTopicOffsets(r.topic) // It finds no leader of a topic that it has not looked at.
    await admin.deleteTopicRecords({ topic: r.topic, partitions: [{ partition: r.partition, offset: String(r.offset) }] })
    return offsets({ ...r, at: 'earliest' })
  }
}, e => {
  for (let x = e; x; x = x.cause ?? x.originalError) {
    if (typeof x.code === 'number') return x.code
    for (const inner of x.errors ?? []) {
      if (typeof inner.code === 'number') return inner.code
    }
  }
})
