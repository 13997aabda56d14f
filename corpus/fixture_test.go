package corpus_test

// small is a valid case that the tests bend.
const small = `schema: qualify/case/v1
id: shop-one-01
family: shop
split: dev
title: A small case
room:
  goal: Set the price.
  owner: {id: ana, name: Ana}
  agents:
    - {id: clerk, agent: agent-clerk, role: specialist, description: sets prices, aliases: [till], tools: [show, set_price]}
    - {id: eye, agent: agent-eye, role: reviewer, description: checks prices, tools: [show]}
  criteria:
    - {id: c-price, text: The price is right}
  limits: {budget_usd: "0.08", model_calls: 40, tool_calls: 40, minutes: 60, parallel: 2}
world:
  documents:
    prices: {tea: {cents: 250}}
tools:
  - name: show
    action: read
    description: All prices
    params: {type: object, additionalProperties: false, properties: {}}
    op: {kind: query, from: /prices}
  - name: set_price
    action: write
    description: Set a price
    params: {type: object, additionalProperties: false, required: [item, cents], properties: {item: {type: string}, cents: {type: integer}, why: {type: string}}}
    op: {kind: update, at: "/prices/{item}", set: {cents: "{cents}", why: "{why}"}, missing: error}
    identity: {target: [item], volatile: [why]}
owner:
  think_seconds: 20
  messages: [{id: m1, text: "Tea costs 300 now."}]
  corrections:
    - {id: k1, type: correction, text: "Tea is not at 300.", when: {after: claim, document: /prices/tea/cents, is_not: 300}, max: 2}
  patience: 2
faults:
  - {id: f1, tool: set_price, target: tea, call: 1, kind: ack_lost_after_commit}
`
