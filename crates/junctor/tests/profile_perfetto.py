#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges a Perfetto trace by Perfetto's published protos: no unknown field, spans closed as brackets, flows with both ends, the one behind the other in
time, switches on processors, counters on tracks of their own.

Prints the number of spans, flows, switches and counter readings. Exits with 77 where the package `perfetto` is missing."""

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
opened, flows, ended = collections.defaultdict(list), {}, {}
spans, readings = 0, 0
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
    known_track = tracks[track]
    if event.type == protos.TrackEvent.TYPE_COUNTER:
        assert known_track.counter.unit_name and known_track.name, "a counter without a unit or a name"
        assert known_track.parent_uuid in tracks and event.double_counter_value >= 0, "a counter of nobody"
        readings += 1
    else:
        assert known_track.thread.thread_name or known_track.name, "a span on no track"
        assert not known_track.parent_uuid or tracks[known_track.parent_uuid].thread.thread_name, "a track of no thread"
    assert at >= last[track], f"time goes back on track {track}: {at} after {last[track]}"
    last[track] = at
    for flow in event.flow_ids:
        assert flow not in flows, "a flow that begins twice"
        flows[flow] = at
    for flow in event.terminating_flow_ids:
        ended[flow] = min(at, ended.get(flow, at))
    if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
        assert event.name or names[event.name_iid], "a span without a name"
        opened[track].append(event.name_iid)
        spans += 1
    elif event.type == protos.TrackEvent.TYPE_SLICE_END:
        opened[track].pop()
assert not any(opened.values()), f"spans without end: {opened}"
assert ended.keys() == flows.keys(), "flows with one end"
assert all(ended[flow] >= begun for flow, begun in flows.items()), "flows that end before they begin"
print(spans, len(ended), switches, readings)
