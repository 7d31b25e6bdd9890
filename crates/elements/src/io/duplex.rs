// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both directions of a device in one element: what taps and in-process wires share.

use std::net::IpAddr;

use engine::args::Args;
use engine::clock::{Nanos, SECOND};
use engine::swap::{self, Depot};
use engine::{Cx, Element, Handler, HandlerError, InitCx, OpenCx, Provided, Rehearsed, Tasks};
use packet::port::{Device, Spec};
use packet::{Batch, Packet};

use super::from_device::{self, FromDevice};
use super::to_device::{self, ToDevice};

const RX: &[Handler] = from_device::HANDLERS;

/// FromDevice's handlers, and what was sent.
pub const HANDLERS: &[Handler] = &[
    RX[0], RX[1], RX[2], RX[3], RX[4], RX[5], RX[6], RX[7], RX[8], RX[9], RX[10], RX[11], RX[12], RX[13],
    SENT, SENT_BYTES,
];
const SENT: Handler = Handler::read("sent");
const SENT_BYTES: Handler = Handler::read("sent_bytes");

/// A device that packets come from and go to.
#[derive(Default)]
pub struct Duplex {
    from: FromDevice,
    to: ToDevice,
    receives: bool,
    sends: bool,
    virtual_routes: VirtualRoutes,
}

/// The timer for looks at the kernel's virtual addresses, and the time between two. Timer 0 is ToDevice's.
const VIRTUAL: u32 = 1;
const VIRTUAL_EVERY: Nanos = SECOND / 10;

/// Routes for what is for the kernel's virtual routers.
#[derive(Default)]
struct VirtualRoutes {
    /// The routing tables, for IPv4 and for IPv6, and the output that leads to the kernel.
    tables: [Option<String>; 2],
    known: Vec<IpAddr>,
}

impl VirtualRoutes {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.tables = [args.keyword_opt("VIRTUAL"), args.keyword_opt("VIRTUAL6")];
    }

    fn are_wanted(&self) -> bool {
        self.tables.iter().any(Option::is_some)
    }

    /// Has the tables agree with the kernel.
    #[cold]
    fn follow(&mut self, cx: &mut Cx<'_>, device: &dyn Device) {
        let mut now = device.virtual_addresses();
        now.retain(|address| self.table(address).is_some());
        let before = std::mem::take(&mut self.known);
        for gone in before.iter().filter(|address| !now.contains(address)) {
            self.write(cx, "remove", gone);
        }
        for new in now.iter().filter(|address| !before.contains(address)) {
            self.write(cx, "set", new);
        }
        self.known = now;
    }

    fn table(&self, address: &IpAddr) -> Option<&str> {
        self.tables[usize::from(address.is_ipv6())].as_deref()
    }

    fn write(&self, cx: &mut Cx<'_>, verb: &str, address: &IpAddr) {
        let Some((table, output)) = self.table(address).and_then(|text| text.split_once(' ')) else { return };
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        let route = format!("{address}/{prefix} {}", output.trim());
        if let Err(why) = cx.write_handler(&format!("{table}.{verb}"), &route) {
            cx.print(&format!("{}: {table}.{verb} {route}: {why}", cx.name()));
        }
    }
}

impl Duplex {
    /// Sets up both halves; reads the arguments that all such elements have.
    pub fn configure(&mut self, args: &mut Args<'_>, spec: Spec, force_ip: bool) {
        let burst = args.keyword("BURST", 0);
        let active = args.keyword("ACTIVE", true);
        self.virtual_routes.configure(args);
        self.receives = args.noutputs > 0;
        self.sends = args.ninputs > 0;
        self.from.config = from_device::Config {
            expression: String::new(),
            spec: spec.clone(),
            queue: None,
            burst,
            timestamp: args.keyword("TIMESTAMP", true),
            force_ip,
            active,
            stop: false,
        };
        let (pulls, half) = (args.input_is_pull(0), self.receives);
        self.to.config =
            to_device::Config { spec, queue: None, burst, pad: false, active, pulls, half, plane: false };
    }
}

impl Element for Duplex {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        if self.receives {
            self.from.open(cx)?;
        }
        if self.sends {
            self.to.open(cx)?;
        }
        // One task for both directions: a worker owns the whole device.
        Ok(Tasks::One)
    }

    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        self.to.rehearse(cx, port, packet)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.receives {
            self.from.initialize(cx)?;
        }
        if self.sends {
            self.to.initialize(cx)?;
        }
        if self.virtual_routes.are_wanted() {
            cx.set_timer_after(VIRTUAL, VIRTUAL_EVERY);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if timer != VIRTUAL {
            return self.to.run_timer(cx, timer);
        }
        if let Some(opened) = self.from.opened() {
            self.virtual_routes.follow(cx, opened.device());
            cx.set_timer_after(VIRTUAL, VIRTUAL_EVERY);
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        self.to.push(cx, port, batch);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let received = self.receives && self.from.run_task(cx);
        let sent = self.to.config.pulls && self.to.run_task(cx);
        received || sent
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Result<String, HandlerError> {
        match name {
            "sent" => self.to.read(cx, "count", param),
            "sent_bytes" => self.to.read(cx, "byte_count", param),
            _ if self.receives => self.from.read(cx, name, param),
            "count" => Ok("0".to_owned()),
            _ => self.to.read(cx, name, param),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.to.write(cx, name, value)?;
        self.from.write(cx, name, value)
    }

    fn provide(&self) -> Option<Provided> {
        if self.receives { self.from.provide() } else { self.to.provide() }
    }

    fn held(&self) -> usize {
        self.to.held()
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Duplex>(old) else { return false };
        let received = self.from.take_state(cx, &mut old.from);
        self.to.take_state(cx, &mut old.to) || received
    }

    fn release(&mut self, cx: &mut Cx<'_>, depot: &mut Depot) {
        self.to.release(cx, depot);
        self.from.release(cx, depot);
    }

    fn acquire(&mut self, cx: &mut Cx<'_>, depot: &mut Depot) {
        self.to.acquire(cx, depot);
        self.from.acquire(cx, depot);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.to.finish(cx);
        self.from.finish(cx);
    }
}

/// Makes an element of a struct over [`Duplex`]: all but its arguments is delegated.
macro_rules! duplex {
    ($name:ident, |$this:ident, $args:ident| $configure:block) => {
        #[derive(Default)]
        struct $name($crate::io::duplex::Duplex);

        impl engine::Element for $name {
            fn configure(&mut self, $args: &mut engine::args::Args<'_>) {
                let $this = &mut self.0;
                $configure
            }

            fn open(&mut self, cx: &mut engine::OpenCx<'_>) -> Result<engine::Tasks, String> {
                self.0.open(cx)
            }

            fn initialize(&mut self, cx: &mut engine::InitCx<'_>) -> Result<(), String> {
                self.0.initialize(cx)
            }

            fn push(&mut self, cx: &mut engine::Cx<'_>, port: usize, batch: packet::Batch) {
                self.0.push(cx, port, batch);
            }

            fn run_task(&mut self, cx: &mut engine::Cx<'_>) -> bool {
                self.0.run_task(cx)
            }

            fn run_timer(&mut self, cx: &mut engine::Cx<'_>, timer: u32) {
                self.0.run_timer(cx, timer);
            }

            fn read(
                &mut self,
                cx: &mut engine::Cx<'_>,
                name: &str,
                param: &str,
            ) -> Result<String, engine::HandlerError> {
                self.0.read(cx, name, param)
            }

            fn write(
                &mut self,
                cx: &mut engine::Cx<'_>,
                name: &str,
                value: &str,
            ) -> Result<(), engine::HandlerError> {
                self.0.write(cx, name, value)
            }

            fn provide(&self) -> Option<engine::Provided> {
                self.0.provide()
            }

            fn held(&self) -> usize {
                self.0.held()
            }

            fn take_state(&mut self, cx: &mut engine::Cx<'_>, old: &mut dyn engine::Element) -> bool {
                engine::swap::same::<$name>(old).is_some_and(|old| self.0.take_state(cx, &mut old.0))
            }

            fn release(&mut self, cx: &mut engine::Cx<'_>, depot: &mut engine::swap::Depot) {
                self.0.release(cx, depot);
            }

            fn acquire(&mut self, cx: &mut engine::Cx<'_>, depot: &mut engine::swap::Depot) {
                self.0.acquire(cx, depot);
            }

            fn finish(&mut self, cx: &mut engine::Cx<'_>) {
                self.0.finish(cx);
            }
        }
    };
}

pub(super) use duplex;
