// The loop of a driver: a JSON request a line, a JSON answer a line. See tests/clients/README.md.

import { createInterface } from 'node:readline'

export class Unsupported extends Error {}

// Refused is an error that carries Kafka's code.
export class Refused extends Error {
  constructor (code) {
    super(`code ${code}`)
    this.code = code
  }
}

const limit = 25000

// What a client drops on the floor does not end the driver: the operation tells how it went.
process.on('unhandledRejection', e => console.error(e))

export async function serve (handlers, explain) {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const request = JSON.parse(line)
    let answer
    try {
      const handler = handlers[request.op]
      if (!handler) throw new Unsupported()
      answer = (await within(handler(request), limit)) ?? {}
    } catch (e) {
      if (e instanceof Unsupported) answer = { unsupported: true }
      else {
        const code = e instanceof Refused ? e.code : explain(e)
        answer = code ? { code } : { error: String(e.message ?? e).split('\n')[0] }
      }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  process.exit(0) // Connections that a client keeps would hold the process.
}

function within (promise, ms) {
  let timer
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing within ${ms / 1000} s`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

// decode and encode translate between JSON's base64 and bytes; null stays null.
export const decode = s => (s === null || s === undefined ? null : Buffer.from(s, 'base64'))
export const encode = b => (b === null || b === undefined ? null : Buffer.from(b).toString('base64'))
