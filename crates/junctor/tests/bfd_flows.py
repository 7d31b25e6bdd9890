# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sends numbered packets of many flows at an even rate, or notes which came and when.

    bfd_flows.py send ADDRESS FLOWS RATE SECONDS    prints `flow number time_ns` for each packet sent
    bfd_flows.py receive ADDRESS                    prints `flow number time_ns` for each packet received, until it is interrupted
"""

import socket
import sys
import time


def send(address, flows, rate, seconds):
    sockets = []
    for flow in range(flows):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind(("", 20000 + flow))
        one.connect((address, 9999))
        sockets.append(one)
    begin, sent = time.monotonic_ns(), []
    for number in range(rate * seconds):
        due = begin + number * 1_000_000_000 // rate
        while time.monotonic_ns() < due:
            time.sleep(max(0, (due - time.monotonic_ns()) / 1e9))
        flow = number % flows
        try:
            sockets[flow].send(number.to_bytes(8, "big"))
        except OSError:
            # An ICMP error about an earlier packet: the packet is sent again.
            sockets[flow].send(number.to_bytes(8, "big"))
        sent.append((flow, number, time.monotonic_ns()))
    for line in sent:
        print(*line)


def receive(address):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    one.bind((address, 9999))
    print("ready", flush=True)
    came = []
    try:
        while True:
            data, (_, port) = one.recvfrom(100)
            came.append((port - 20000, int.from_bytes(data, "big"), time.monotonic_ns()))
    except KeyboardInterrupt:
        pass
    for line in came:
        print(*line)


if sys.argv[1] == "send":
    send(sys.argv[2], *map(int, sys.argv[3:6]))
else:
    receive(sys.argv[2])
