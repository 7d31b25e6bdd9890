#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges a Perfetto trace by Perfetto's published protos: no unknown field, spans closed as brackets, flows with both ends, switches on processors.

Prints the number of spans, flows and switches. Exits with 77 where the package `perfetto` is missing."""

import collections
import sys

try:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
except ImportError:
    sys.exit(77)


def known(message, path):
    for field in UnknownFieldSet(message):
        sys.exit(f"{path} has a field {field.field_number} that the protos do not know")
    for field, value in message.ListFields():
        if field.message_type:
            for part in value if hasattr(value, "__len__") else [value]:
                known(part, f"{path}.{field.name}")


trace = protos.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
known(trace, "trace")
tracks, names, last, switches = {}, {}, collections.defaultdict(int), 0
opened, flows, ended = collections.defaultdict(list), set(), set()
spans = 0
for packet in trace.packet:
    if packet.HasField("interned_data"):
        names = {n.iid: n.name for n in packet.interned_data.event_names}
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    for event in packet.ftrace_events.event:
        switches += event.HasField("sched_switch")
    if not packet.HasField("track_event"):
        continue
    event, at = packet.track_event, packet.timestamp
    track = event.track_uuid
    assert tracks[track].thread.thread_name, "a span on no thread"
    assert at >= last[track], f"time goes back on track {track}: {at} after {last[track]}"
    last[track] = at
    flows.update(event.flow_ids)
    ended.update(event.terminating_flow_ids)
    if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
        assert names[event.name_iid], "a span without a name"
        opened[track].append(event.name_iid)
        spans += 1
    elif event.type == protos.TrackEvent.TYPE_SLICE_END:
        opened[track].pop()
assert not any(opened.values()), f"spans without end: {opened}"
assert ended <= flows, "flows that end and never began"
print(spans, len(ended), switches)
