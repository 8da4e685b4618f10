"""HTTP around inference and documents.

server.py           the front door: uvicorn, connections, signals
connections.py      connections that are bounded in time and size
app.py              the application: routes, and what stands around them
settings.py         the `serve` section: limits
office.py           all that handlers need
libretranslate.py   LibreTranslate's routes
v1.py               mtkit's own routes
page.py             the page for people, and that of the API
openapi.py          the OpenAPI document
bodies.py           bodies of requests
access.py           who may ask, how much
keys.py             keys, and how often each may ask
known_hosts.py      names that it is reached by
guard.py            bounds, headers and log of every request
waiting_bytes.py    how many bytes of requests may wait
answering.py        work that ends when its caller leaves
translate_texts.py  texts and documents to translations
catalogue.py        the models, and the way from one language into another
served_languages.py the languages of a model, by callers' codes and its own
joined_texts.py     translations of sentences, put together
text_lanes.py       which processes work on which texts
text_process.py     a process that works on texts, seen from the parent; who may use it when
text_main.py        what that process does
text_tasks.py       tasks of it: bodies, languages, texts, documents
detection.py        which language a text is in
stored_files.py     translated files, for a while
model_service.py    one model: queue, process, restarts
fair_queue.py       lines of several callers, in fair turns
worker_process.py   a process with a model, seen from the parent
worker_main.py      what that process does
messages.py         what parent and processes tell each other
client.py           a server as a translator
rendering.py        answers as JSON, made piece by piece
metrics.py          what Prometheus reads
faults.py           errors that requests are answered with

Only `worker_main.py` opens a model; the parent loads no torch, and works on no text itself.
"""
