#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a command on a terminal, takes the terminal away once something is shown, and says whether the command ended: top_terminal.py COMMAND..."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time

command = sys.argv[1:]
child, master = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execv(command[0], command)
shown = b""
while b"packets/s" not in shown:
    shown += os.read(master, 4096)
os.close(master)
end = time.monotonic() + 50
while time.monotonic() < end:
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        code = os.waitstatus_to_exitcode(status)
        sys.exit(None if code in (0, 1) else f"it ended with {code}")
    time.sleep(0.05)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
sys.exit("it goes on without a terminal")
