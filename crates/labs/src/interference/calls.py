# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sets up and ends SIP calls to itself over loopback with PJSIP: CALLS times, one or two at once, as many as its library lets be.

Prints how many were confirmed, and the seconds that it took: of the clock, and of the processor. Media goes nowhere: each call
would open four sockets, and the library has room for 64."""
import os
import sys
import time

import pjsua2 as pj

calls = int(sys.argv[1])
endpoint = pj.Endpoint()
endpoint.libCreate()
config = pj.EpConfig()
config.logConfig.level = config.logConfig.consoleLevel = 0
config.uaConfig.threadCnt = 0
config.uaConfig.mainThreadOnly = True
endpoint.libInit(config)
endpoint.audDevManager().setNullDev()
transport = pj.TransportConfig()
transport.port = 5060
transport.boundAddress = "127.0.0.1"
endpoint.transportCreate(pj.PJSIP_TRANSPORT_UDP, transport)
endpoint.libStart()

live, ended = {}, []
confirmed = finished = made = 0


def words(status=None):
    prm = pj.CallOpParam(True)
    prm.opt.audioCount, prm.opt.videoCount = 1, 0
    if status:
        prm.statusCode = status
    return prm


class Caller(pj.Call):
    def onCallState(self, _):
        global confirmed, finished
        state = self.getInfo().state
        if state == pj.PJSIP_INV_STATE_CONFIRMED:
            confirmed += 1
            self.hangup(pj.CallOpParam())
        elif state == pj.PJSIP_INV_STATE_DISCONNECTED:
            finished += 1
            ended.append(self)


class Callee(pj.Call):
    def onCallState(self, _):
        if self.getInfo().state == pj.PJSIP_INV_STATE_DISCONNECTED:
            ended.append(self)


class Account(pj.Account):
    def onIncomingCall(self, prm):
        call = Callee(self, prm.callId)
        live[id(call)] = call
        call.answer(words(200))


account = Account()
config = pj.AccountConfig()
config.idUri = "sip:lab@127.0.0.1"
config.mediaConfig.useLoopMedTp = True
account.create(config)

wall, cpu = time.monotonic(), time.process_time()
while finished < calls:
    while made < calls and made - finished < 2:
        call = Caller(account)
        live[id(call)] = call
        call.makeCall("sip:lab@127.0.0.1:5060", words())
        made += 1
    endpoint.libHandleEvents(1)
    for call in ended:
        live.pop(id(call), None)
    ended.clear()
print("calls", confirmed, time.monotonic() - wall, time.process_time() - cpu, flush=True)
# The library's own end waits for timers.
os._exit(0)
