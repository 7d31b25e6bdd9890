# SPDX-License-Identifier: MIT OR Apache-2.0
# Has many requests outstanding on a socket of NETLINK_XFRM while its server goes away, twice, and reads the answers only then.
import os
import select
import socket
import struct
import sys

AF_NETLINK, NETLINK_XFRM, COUNT = 16, 6, int(sys.argv[1])
NLMSG_ERROR, NEWSADINFO, GETSADINFO, REQUEST, EBUSY = 2, 0x22, 0x23, 1, 16


def connected():
    new = socket.socket(AF_NETLINK, socket.SOCK_RAW, NETLINK_XFRM)
    new.bind((0, 0))
    return new


def ask(sequence):
    request = struct.pack("=IHHIII", 20, GETSADINFO, REQUEST, sequence, 0, 0xFFFFFFFF)
    assert (os.write(xfrm.fileno(), request) if sequence % 2 else xfrm.send(request)) == len(request)


def answer():
    data = os.read(xfrm.fileno(), 4096) if len(answers) % 2 else xfrm.recv(4096)
    _, kind, _, sequence = struct.unpack_from("=IHHI", data)
    answers.append((sequence, kind, -struct.unpack_from("=i", data, 16)[0] if kind == NLMSG_ERROR else 0))
    return answers[-1]


def until_it_hangs_up():
    poll = select.poll()
    poll.register(xfrm, 0)
    poll.poll()


xfrm, answers = connected(), []
watcher = select.epoll()
watcher.register(xfrm, select.EPOLLIN)
for sequence in range(COUNT):
    ask(sequence)
for sequence in COUNT, COUNT + 1:
    until_it_hangs_up()
    ask(sequence)
# It watches what is behind the descriptor by now.
assert watcher.poll(60) == [(xfrm.fileno(), select.EPOLLIN)]
for _ in range(COUNT + 2):
    answer()
assert sorted(sequence for sequence, _, _ in answers) == list(range(COUNT + 2)), answers
for sequence, kind, errno in answers:
    assert (kind, errno) == ((NEWSADINFO, 0) if sequence > COUNT else (NLMSG_ERROR, EBUSY)), answers

child = os.fork()
if child == 0:
    xfrm.close()
    xfrm = connected()
    ask(7)
    os._exit(answer() != (7, NEWSADINFO, 0))
assert os.waitpid(child, 0)[1] == 0
ask(8)
assert answer() == (8, NEWSADINFO, 0)
