# SPDX-License-Identifier: MIT OR Apache-2.0
"""A control plane in Python: it receives the packets that a router punts, and hands them back with another mark.

    router:      ... -> ToPlane(punts);  FromPlane(answers) -> ...
    deployment:  [channels.punts]        [channels.answers]

Usage: punts.py [SOCKET]; by default the socket of the deployment that has started it ($JUNCTOR_ICC).
"""

import os
import sys

import junctor_icc as icc

node = icc.Node.connect(sys.argv[1] if len(sys.argv) > 1 else os.environ["JUNCTOR_ICC"])
punts, answers = node.packet_receiver("punts"), node.packet_sender("answers")
print("receiving", flush=True)
while True:
    received = punts.receive()
    if received is None:
        punts.wait(1)
        continue
    packet, note = received
    print(f"{len(packet)} bytes, type {note.kind}, paint {note.paint}: {packet[:16].hex(' ')}", flush=True)
    try:
        answers.send(packet, note._replace(paint=note.paint + 1))
    except icc.Full:
        pass  # The router does not keep up, or nobody receives.
