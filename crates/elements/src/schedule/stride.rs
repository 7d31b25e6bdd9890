// SPDX-License-Identifier: MIT OR Apache-2.0
//! # StrideSched, StrideSwitch
//!
//! `StrideSched(TICKETS, ...)`, `StrideSwitch(TICKETS, ...)`
//!
//! Share packets among ports in proportion to tickets: StrideSched fetches from its inputs, StrideSwitch sends to its
//! outputs.
//!
//! **Ports:** StrideSched: 1 or more pull inputs, 1 pull output. StrideSwitch: 1 push input, 1 or more push outputs.
//!
//! **Arguments**
//! * `TICKETS` for each input (or output) a number, 0 to 32768. A port with 0 tickets is not used.
//!
//! **Drops:** `inactive`: StrideSwitch drops all packets when no port has tickets.
//!
//! **Cores:** one account of the shares for all workers; where several reach it, behind a lock.
//!
//! **Handlers**
//! * `tickets0`, `tickets1` ... `tickets31` read/write: a port's tickets.
//!
//! ```click
//! InfiniteSource(LIMIT 9, STOP true) -> [0] s :: StrideSched(2, 1) -> Unqueue -> w :: StrideSwitch(1, 3);
//! InfiniteSource(LIMIT 9) -> [1] s; w[0] -> Discard; w[1] -> Discard;
//! ```
//!
//! See also: RoundRobinSched, PrioSched, DRRSched, RoundRobinSwitch
//!
//! Waldspurger and Weihl, "Stride Scheduling: Deterministic Proportional-Share Resource Management", MIT/LCS/TM-528, 1995.

use element::args::Args;
use element::{
    Class, Cx, Element, Handler, HandlerError, OwnHandlers, Reason, Rehearsal, Rehearsed, parse_integer,
};
use packet::{Batch, Packet};

use crate::tools::{Splitter, number};

/// The descriptor of the element that fetches.
pub const SCHED: Class = Class::new("StrideSched", "1-/1", || Box::new(StrideSched::default()))
    .processing("l/l")
    .serial("inputs are asked in one order, by one account of their shares")
    .handlers(HANDLERS)
    .rehearsal::<StrideSched>()
    .own_handlers::<StrideSched>()
    .file(file!());
/// The descriptor of the element that sends.
pub const SWITCH: Class = Class::new("StrideSwitch", "1/1-", || Box::new(StrideSwitch::default()))
    .processing("h/h")
    .serial("packets are shared out in one order, by one account of the shares")
    .handlers(HANDLERS)
    .own_handlers::<StrideSwitch>()
    .file(file!());

const HANDLERS: &[Handler] = &[
    Handler::both("tickets0"),
    Handler::both("tickets1"),
    Handler::both("tickets2"),
    Handler::both("tickets3"),
    Handler::both("tickets4"),
    Handler::both("tickets5"),
    Handler::both("tickets6"),
    Handler::both("tickets7"),
    Handler::both("tickets8"),
    Handler::both("tickets9"),
    Handler::both("tickets10"),
    Handler::both("tickets11"),
    Handler::both("tickets12"),
    Handler::both("tickets13"),
    Handler::both("tickets14"),
    Handler::both("tickets15"),
    Handler::both("tickets16"),
    Handler::both("tickets17"),
    Handler::both("tickets18"),
    Handler::both("tickets19"),
    Handler::both("tickets20"),
    Handler::both("tickets21"),
    Handler::both("tickets22"),
    Handler::both("tickets23"),
    Handler::both("tickets24"),
    Handler::both("tickets25"),
    Handler::both("tickets26"),
    Handler::both("tickets27"),
    Handler::both("tickets28"),
    Handler::both("tickets29"),
    Handler::both("tickets30"),
    Handler::both("tickets31"),
];

/// The stride of a port with one ticket.
const STRIDE_1: u64 = 1 << 16;
const MAX_TICKETS: u32 = 1 << 15;

#[derive(Clone, Copy, Default)]
struct Client {
    tickets: u32,
    pass: u64,
}

impl Client {
    fn stride(&self) -> u64 {
        STRIDE_1 / u64::from(self.tickets.max(1))
    }
}

/// The ports with tickets, the one whose turn it is first.
#[derive(Default)]
struct Strides {
    clients: Vec<Client>,
    order: Vec<usize>,
}

impl Strides {
    fn configure(&mut self, args: &mut Args<'_>, ports: usize) {
        let given = args.rest();
        if given.len() != ports {
            args.error(format!(
                "expected {ports} numbers of tickets, one for each port, not {}",
                given.len()
            ));
            return;
        }
        self.clients = vec![Client::default(); ports];
        for (port, text) in given.iter().enumerate() {
            match parse_integer(text.trim()).and_then(|n| u32::try_from(n).ok()) {
                Some(n) if n <= MAX_TICKETS => self.clients[port].tickets = n,
                _ => args.error(format!("tickets should be a number from 0 to {MAX_TICKETS}, not '{text}'")),
            }
        }
        // Backwards, because the last to enter goes first among equals.
        for port in (0..ports).rev().filter(|p| self.clients[*p].tickets > 0).collect::<Vec<_>>() {
            self.clients[port].pass = self.clients[port].stride();
            self.insert(port);
        }
    }

    fn insert(&mut self, port: usize) {
        let pass = self.clients[port].pass;
        let at = self.order.partition_point(|other| self.clients[*other].pass < pass);
        self.order.insert(at, port);
    }

    /// Offers turns in order until `take` accepts; those passed over are charged, too.
    fn offer(&mut self, mut take: impl FnMut(usize) -> bool) -> bool {
        let taken = self.order.iter().position(|port| take(*port));
        let n = taken.map_or(self.order.len(), |i| i + 1);
        let moved: Vec<usize> = self.order.drain(..n).collect();
        for port in moved {
            self.clients[port].pass += self.clients[port].stride();
            self.insert(port);
        }
        taken.is_some()
    }

    /// Gives a turn to the first port.
    fn next(&mut self) -> Option<usize> {
        let port = *self.order.first()?;
        self.order.remove(0);
        self.clients[port].pass += self.clients[port].stride();
        self.insert(port);
        Some(port)
    }

    fn port(&self, handler: &str) -> Result<usize, HandlerError> {
        let port = handler.trim_start_matches("tickets").parse().ok();
        port.filter(|p| *p < self.clients.len()).ok_or_else(|| HandlerError::unknown(handler))
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        Ok(self.clients[self.port(name)?].tickets.to_string())
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let port = self.port(name)?;
        let tickets: u32 = number(name, value)?;
        if tickets > MAX_TICKETS {
            return Err(HandlerError::bad_value(name, value, "0 to 32768 tickets"));
        }
        let before = std::mem::replace(&mut self.clients[port].tickets, tickets);
        if tickets == 0 {
            self.order.retain(|p| *p != port);
        } else if before == 0 {
            let first = self.order.first().map_or(0, |p| self.clients[*p].pass);
            self.clients[port].pass = first + self.clients[port].stride();
            self.insert(port);
        }
        Ok(())
    }
}

#[derive(Default)]
struct StrideSched(Strides);

impl Element for StrideSched {
    fn configure(&mut self, args: &mut Args<'_>) {
        let ports = args.ninputs;
        self.0.configure(args, ports);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let mut batch = Batch::new();
        let mut fetch = |port: usize| {
            let mut one = cx.pull(port, 1);
            let any = !one.is_empty();
            batch.append(&mut one);
            any
        };
        for _ in 0..max {
            if !self.0.offer(&mut fetch) {
                break;
            }
        }
        batch
    }
}

impl OwnHandlers for StrideSched {
    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.0.read(name)
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.0.write(name, value)
    }
}

impl Rehearsal for StrideSched {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

#[derive(Default)]
struct StrideSwitch {
    strides: Strides,
    splitter: Splitter,
}

impl Element for StrideSwitch {
    fn configure(&mut self, args: &mut Args<'_>) {
        let ports = args.noutputs;
        self.strides.configure(args, ports);
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        if self.strides.order.is_empty() {
            cx.drop_batch(Reason::Inactive, batch);
            return;
        }
        let strides = &mut self.strides;
        self.splitter.split(cx, batch, |_| strides.next().unwrap_or(0));
    }
}

impl OwnHandlers for StrideSwitch {
    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.strides.read(name)
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.strides.write(name, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn fetches_in_clicks_order() {
        let text = "InfiniteSource(1, 10) -> e :: StrideSched(4, 2, 1) -> Unqueue -> o :: TestOut; InfiniteSource(2, 10) -> [1] e; InfiniteSource(3, 10) -> [2] e;";
        for burst in [1, 32] {
            let out = Rig::text(text).burst(burst).run().bytes("o").concat();
            assert_eq!(String::from_utf8_lossy(&out), "112112311211231122322322333333");
        }
    }

    #[test]
    fn sends_in_proportion() {
        let text = "InfiniteSource(LIMIT 700) -> e :: StrideSwitch(4, 0, 2, 1); e[0] -> a :: TestOut; e[1] -> b :: TestOut; e[2] -> c :: TestOut; e[3] -> d :: TestOut;";
        for burst in [1, 32] {
            let mut run = Rig::text(text).burst(burst).run();
            assert_eq!(["a", "b", "c", "d"].map(|o| run.out(o).len()), [400, 0, 200, 100]);
            assert_eq!(run.read("e.tickets2"), "2");
            run.write("e.tickets0", "0").unwrap();
            run.write("e.tickets1", "1").unwrap();
            assert!(run.write("e.tickets1", "-1").is_err() && run.write("e.tickets9", "1").is_err());
        }
    }

    #[test]
    fn nobody_with_tickets() {
        let run = Rig::new("StrideSwitch(0)").inputs(&[b"a"]).run();
        assert_eq!(run.drops("e"), [(Reason::Inactive, 1)]);
        let errors = Rig::new("StrideSwitch(1, 2)").errors();
        assert_eq!(errors, ["e: expected 1 numbers of tickets, one for each port, not 2"]);
        assert_eq!(Rig::new("StrideSwitch(-1)").errors().len(), 1);
    }
}
