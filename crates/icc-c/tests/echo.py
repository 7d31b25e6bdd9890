# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does what echo.c does, by the Python module, and sleeps on the descriptor instead."""

import select
import sys

import junctor_icc as icc

node = icc.Node.connect(sys.argv[1], domain=7, node=2)
try:
    node.sender("nothing")
    sys.exit("an endpoint that is not there")
except icc.IccError as why:
    assert "no endpoint 'nothing'" in str(why), why
there, back = node.receiver("there"), node.sender("back")
lengths, counts = node.scalar_sender("lengths"), node.counter_writer("counts")
sleeping = select.epoll.fromfd(there.fileno())
message, totals = None, [0, 0]
while message != b"":
    message = there.receive()
    if message is None:
        if there.announce():
            sleeping.poll(60)
        continue
    totals = [totals[0] + 1, totals[1] + len(message)]
    counts.publish(totals)
    lengths.send(len(message))
    back.send(message)
try:
    back.send(bytes(1000))
    sys.exit("a message that is too long")
except icc.IccError as why:
    assert why.code == icc.TOO_LONG, why

frames, answers = node.packet_receiver("frames"), node.packet_sender("answers")
assert answers.is_received()
for _ in range(3):
    while (received := frames.receive()) is None:
        frames.wait(60)
    packet, note = received
    answers.send(packet, note._replace(paint=note.paint ^ 255))
assert frames.lost() == 0

load, copy = node.block_reader("load"), node.block_writer("copy")
assert load.is_written()
number, block = load.read()
assert (number, len(block)) == (2, 5003), number
try:
    copy.publish(bytes(6001))
    sys.exit("a block that is too long")
except icc.IccError as why:
    assert why.code == icc.TOO_LONG, why
copy.publish(block[::-1])
assert node.block_reader("copy").read() == (1, block[::-1])
