# SPDX-License-Identifier: MIT OR Apache-2.0
"""Junctor's inter-core communication for Python: a thin layer over the C library (libjunctor_icc_c.so), by ctypes.

    node = Node.connect("/run/junctor/domain", domain=1, node=7)
    commands = node.sender("commands")
    commands.send(b"route add 192.0.2.0/24")
    for message in iter(replies.receive, None): ...

Each object belongs to one thread at a time. Nothing waits for the other side, except methods named wait.
"""

import ctypes
import os
import time
from collections import namedtuple

ABI = 1
EMPTY, FULL, TOO_LONG, TOO_SHORT, BROKEN, GIVEN_UP, OVERTAKEN, ARGUMENT, SYSTEM = range(-1, -10, -1)


class IccError(Exception):
    """What the library says; `code` is one of the numbers above, or 0 if something could not be attached."""

    def __init__(self, text, code=0):
        super().__init__(text)
        self.code = code


class Full(IccError):
    """The channel is full: nothing was sent."""


class _Note(ctypes.Structure):
    _fields_ = [("timestamp_ns", ctypes.c_uint64), ("kind", ctypes.c_uint8), ("paint", ctypes.c_uint8)]


# What goes with a packet: when it came (nanoseconds since the epoch, 0 for unknown), how it was addressed (0 to this host, 1 broadcast, 2
# multicast, 3 to another host, 4 sent by this host, 5 looped back), and a mark of the user's.
Note = namedtuple("Note", "timestamp_ns kind paint", defaults=(0, 0, 0))


def _load():
    library = ctypes.CDLL(os.environ.get("JUNCTOR_ICC_LIBRARY", "libjunctor_icc_c.so"))
    pointer, text, i64, u64, u32 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32
    size, flag = ctypes.c_size_t, ctypes.c_int
    functions = {
        "abi": (u32,),
        "error": (text,),
        "connect": (pointer, text, u32, u32),
        "from_fd": (pointer, flag, u32, u32),
        "open_file": (pointer, text, size),
        "is_served": (ctypes.c_bool, pointer),
        "node_free": (None, pointer),
        "send": (flag, pointer, text, size),
        "refused": (u64, pointer),
        "receive": (i64, pointer, pointer, size),
        "wait": (flag, pointer, i64),
        "announce": (flag, pointer),
        "fd": (flag, pointer),
        "scalar_send": (flag, pointer, u64),
        "scalar_receive": (flag, pointer, ctypes.POINTER(u64)),
        "scalar_wait": (flag, pointer, i64),
        "publish": (flag, pointer, ctypes.POINTER(u64), size),
        "read_counters": (i64, pointer, ctypes.POINTER(u64), size, ctypes.POINTER(u64)),
    }
    functions |= {
        "block_publish": (flag, pointer, text, size),
        "block_read": (i64, pointer, pointer, size, ctypes.POINTER(u64)),
        "block_is_written": (ctypes.c_bool, pointer),
    }
    note = ctypes.POINTER(_Note)
    functions |= {
        "packet_send": (flag, pointer, text, size, note),
        "packet_is_received": (ctypes.c_bool, pointer),
        "packet_receive": (i64, pointer, pointer, size, note),
        "packet_lost": (u64, pointer),
        "packet_wait": (flag, pointer, i64),
        "packet_announce": (flag, pointer),
        "packet_fd": (flag, pointer),
    }
    ends = ["sender", "receiver", "scalar_sender", "scalar_receiver", "counter_writer", "counter_reader"]
    for end in ends + ["packet_sender", "packet_receiver", "block_writer", "block_reader"]:
        functions[end] = (pointer, pointer, text)
        functions[end + "_free"] = (None, pointer)
    for name, (result, *arguments) in functions.items():
        function = getattr(library, "junctor_icc_" + name)
        function.restype, function.argtypes = result, arguments
    if library.junctor_icc_abi() != ABI:
        raise ImportError(f"libjunctor_icc_c has interface {library.junctor_icc_abi()}, this module knows {ABI}")
    return library


_library = _load()


def _said():
    return _library.junctor_icc_error().decode(errors="replace")


def _checked(code):
    if code < 0:
        raise (Full if code == FULL else IccError)(_said(), code)
    return code


class _Handle:
    """A handle of the library; `close`, the end of `with` or the last reference frees it."""

    _free = ""

    def __init__(self, handle, keep=None):
        self._handle, self._keep = handle, keep
        if not handle:
            raise IccError(_said())

    def close(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            getattr(_library, f"junctor_icc_{self._free}_free")(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()


class Node(_Handle):
    """A domain that another process serves, or a file."""

    _free = "node"

    @classmethod
    def connect(cls, path, domain=0, node=0):
        return cls(_library.junctor_icc_connect(os.fsencode(path), domain, node))

    @classmethod
    def from_fd(cls, fd, domain=0, node=0):
        """Uses a connected socket that a parent process handed down, and owns it."""
        return cls(_library.junctor_icc_from_fd(fd, domain, node))

    @classmethod
    def open_file(cls, path, size):
        return cls(_library.junctor_icc_open_file(os.fsencode(path), size))

    def is_served(self):
        return _library.junctor_icc_is_served(self._handle)

    def _attach(self, kind, role, endpoint):
        handle = getattr(_library, "junctor_icc_" + role)(self._handle, str(endpoint).encode())
        return kind(handle, self)

    def sender(self, endpoint):
        return self._attach(Sender, "sender", endpoint)

    def receiver(self, endpoint):
        return self._attach(Receiver, "receiver", endpoint)

    def scalar_sender(self, endpoint):
        return self._attach(ScalarSender, "scalar_sender", endpoint)

    def scalar_receiver(self, endpoint):
        return self._attach(ScalarReceiver, "scalar_receiver", endpoint)

    def packet_sender(self, endpoint):
        """Sends packets to a router's FromPlane."""
        return self._attach(PacketSender, "packet_sender", endpoint)

    def packet_receiver(self, endpoint):
        """Receives packets from a router's ToPlane."""
        return self._attach(PacketReceiver, "packet_receiver", endpoint)

    def counter_writer(self, endpoint):
        return self._attach(CounterWriter, "counter_writer", endpoint)

    def counter_reader(self, endpoint):
        return self._attach(CounterReader, "counter_reader", endpoint)

    def block_writer(self, endpoint):
        return self._attach(BlockWriter, "block_writer", endpoint)

    def block_reader(self, endpoint):
        return self._attach(BlockReader, "block_reader", endpoint)


class Sender(_Handle):
    _free = "sender"

    def send(self, message):
        """Raises Full, without waiting, if there is no room."""
        _checked(_library.junctor_icc_send(self._handle, message, len(message)))

    def refused(self):
        return _library.junctor_icc_refused(self._handle)


def _milliseconds(seconds):
    return -1 if seconds is None else max(0, round(seconds * 1000))


class Receiver(_Handle):
    _free = "receiver"
    _room = 4096

    def receive(self):
        """The next message, or None."""
        while True:
            buffer = ctypes.create_string_buffer(self._room)
            length = _library.junctor_icc_receive(self._handle, buffer, self._room)
            if length == TOO_SHORT and self._room < 1 << 20:
                self._room *= 4
                continue
            return None if length == EMPTY else buffer.raw[: _checked(length)]

    def wait(self, seconds=None):
        """True once a message is there; False if the other side came or went, or the time is over."""
        return bool(_checked(_library.junctor_icc_wait(self._handle, _milliseconds(seconds))))

    def announce(self):
        """True if one may sleep until `fileno` is readable (select.epoll.fromfd(fileno).poll(0) takes the wake-up back)."""
        return bool(_checked(_library.junctor_icc_announce(self._handle)))

    def fileno(self):
        return _library.junctor_icc_fd(self._handle)


class ScalarSender(_Handle):
    _free = "scalar_sender"

    def send(self, value):
        _checked(_library.junctor_icc_scalar_send(self._handle, value))


class ScalarReceiver(_Handle):
    _free = "scalar_receiver"

    def receive(self):
        value = ctypes.c_uint64()
        code = _library.junctor_icc_scalar_receive(self._handle, ctypes.byref(value))
        return None if code == EMPTY else (_checked(code), value.value)[1]

    def wait(self, seconds=None):
        return bool(_checked(_library.junctor_icc_scalar_wait(self._handle, _milliseconds(seconds))))


class PacketSender(_Handle):
    _free = "packet_sender"

    def send(self, packet, note=Note()):
        """Raises Full, without waiting, if there is no room."""
        _checked(_library.junctor_icc_packet_send(self._handle, packet, len(packet), ctypes.byref(_Note(*note))))

    def is_received(self):
        """Whether somebody receives at present."""
        return _library.junctor_icc_packet_is_received(self._handle)


class PacketReceiver(_Handle):
    _free = "packet_receiver"
    _room = 1 << 16

    def receive(self):
        """The next packet and its note, or None."""
        buffer, note = ctypes.create_string_buffer(self._room), _Note()
        length = _library.junctor_icc_packet_receive(self._handle, buffer, self._room, ctypes.byref(note))
        if length == EMPTY:
            return None
        return buffer.raw[: _checked(length)], Note(note.timestamp_ns, note.kind, note.paint)

    def lost(self):
        """Packets that could not be had: the sender described them wrongly, or its memory has gone."""
        return _library.junctor_icc_packet_lost(self._handle)

    def wait(self, seconds=None):
        return bool(_checked(_library.junctor_icc_packet_wait(self._handle, _milliseconds(seconds))))

    def announce(self):
        return bool(_checked(_library.junctor_icc_packet_announce(self._handle)))

    def fileno(self):
        return _library.junctor_icc_packet_fd(self._handle)


class CounterWriter(_Handle):
    _free = "counter_writer"

    def publish(self, counters):
        numbers = (ctypes.c_uint64 * len(counters))(*counters)
        _checked(_library.junctor_icc_publish(self._handle, numbers, len(counters)))


class CounterReader(_Handle):
    _free = "counter_reader"
    _room = 1024

    def read(self):
        """The number of the newest publication and its counters, or None before the first."""
        while True:
            numbers, number = (ctypes.c_uint64 * self._room)(), ctypes.c_uint64()
            count = _library.junctor_icc_read_counters(self._handle, numbers, self._room, ctypes.byref(number))
            if count == EMPTY:
                return None
            if _checked(count) <= self._room:
                return number.value, list(numbers[:count])
            self._room = count


class BlockWriter(_Handle):
    _free = "block_writer"

    def publish(self, block):
        """Replaces the block that readers get."""
        _checked(_library.junctor_icc_block_publish(self._handle, block, len(block)))


class BlockReader(_Handle):
    _free = "block_reader"
    _room = 4096

    def read(self):
        """The number of the newest block and its bytes, or None before the first."""
        while True:
            buffer, number = ctypes.create_string_buffer(self._room), ctypes.c_uint64()
            length = _library.junctor_icc_block_read(self._handle, buffer, self._room, ctypes.byref(number))
            if length == EMPTY:
                return None
            if _checked(length) <= self._room:
                return number.value, buffer.raw[:length]
            self._room = length

    def is_written(self):
        """Whether somebody writes at present."""
        return _library.junctor_icc_block_is_written(self._handle)


class HandlerError(IccError):
    """A router has refused a call; `code` is that of the control protocol."""


class Router:
    """Calls the handlers of a user plane, by a channel of kind "calls" of its deployment:

        router = Router(Node.connect(os.environ["JUNCTOR_ICC"]), "steer")
        router.write("rt.add", "192.0.2.0/24 10.0.0.1 1")
        table = router.read("rt.table")

    One program has the channel at a time. Calls wait for their answers, `patience` seconds at most.
    """

    def __init__(self, node, channel, patience=30.0):
        self._patience, self._unread, self._short = patience, b"", False
        self._sender, self._receiver = node.sender(channel + ".calls"), node.receiver(channel + ".answers")
        number = time.time_ns().to_bytes(8, "little")
        self._send(b"\0" + number)
        while self._message() != b"\0" + number:
            pass
        greeting = self._line()
        if not greeting.startswith("Click::ControlSocket/1."):
            raise IccError(f"it does not speak the control protocol, but '{greeting}'")

    def read(self, handler, parameter=""):
        """The value of a read handler."""
        self._ask(f"READDATA {handler}", parameter)
        length = int(self._line().removeprefix("DATA "))
        while len(self._unread) < length:
            self._more()
        value, self._unread = self._unread[:length], self._unread[length:]
        return value.decode(errors="replace")

    def write(self, handler, value=""):
        """Executes a write handler; returns what the router says about it."""
        return self._ask(f"WRITEDATA {handler}", value)

    def _ask(self, command, data):
        data = data.encode()
        self._say(f"{command} {len(data)}\r\n".encode() + data)
        lines, more = [], "-"
        while more == "-":
            line = self._line()
            code, more = line[:3], line[3:4]
            lines.append(line[4:])
        if not code.startswith("2"):
            raise HandlerError("\n".join(lines[1:] or lines), int(code))
        return "\n".join(lines[1:])

    def _say(self, data):
        # An endpoint of calls takes at least 64 bytes; most take 64 KiB.
        size = 60 if self._short else 65535
        for at in range(0, len(data), size):
            try:
                self._send(b"\1" + data[at : at + size])
            except IccError as why:
                if why.code != TOO_LONG or self._short:
                    raise
                self._short = True
                return self._say(data[at:])

    def _send(self, message):
        end, pause = time.monotonic() + self._patience, 20e-6
        while True:
            try:
                return self._sender.send(message)
            except Full:
                if time.monotonic() > end:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)

    def _message(self):
        end = time.monotonic() + self._patience
        while (message := self._receiver.receive()) is None:
            left = end - time.monotonic()
            if left <= 0:
                raise IccError("the router does not answer")
            self._receiver.wait(left)
        return message

    def _more(self):
        message = self._message()
        if message[:1] != b"\1":
            raise IccError("the router has begun anew; connect again")
        self._unread += message[1:]

    def _line(self):
        while b"\n" not in self._unread:
            self._more()
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode(errors="replace").rstrip("\r")
