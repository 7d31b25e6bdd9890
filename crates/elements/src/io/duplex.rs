// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both directions of a device in one element: what taps and in-process wires share.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::swap::DevicePool;
use element::{
    Cx, DeviceQueues, Element, Handler, HandlerError, HotSwap, InitCx, OpenCx, PacketHolder, Provide,
    Provided, Rehearsal, Rehearsed, Tasks, declare, handlers,
};
use packet::port::{Device, Spec};
use packet::{Batch, Packet};

use super::device::{self, Opened, OverDevice, Watch};
use super::from_device::{self, FromDevice};
use super::to_device::{self, ToDevice};

/// FromDevice's handlers, and what was sent.
pub const HANDLERS: &[Handler] = &declare::joined::<16>(&[
    handlers! { Duplex:
        sum "count" => .from.count;
        sum "byte_count" => .from.bytes;
        sum "kernel_drops" => |duplex| duplex.from.missed();
        sum "no_memory" => |duplex| duplex.from.no_memory();
        write "reset_counts" => |duplex| {
            duplex.to.reset_counts();
            duplex.from.reset_counts();
        };
        both "active" => .from.config.active |duplex, cx, active: bool| {
            duplex.to.set_active(cx, active);
            duplex.from.set_active(cx, active);
        };
    },
    &device::reads::<Duplex>(),
    handlers! { Duplex:
        sum "checksums_completed" => |duplex| duplex.from.completed();
        read "sent" => .to.count;
        read "sent_bytes" => .to.bytes;
    },
]);

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

/// How many routes all such elements have removed. Another element may have had the same route: each sets its own again.
static REMOVED: AtomicU64 = AtomicU64::new(0);

/// Routes for what is for the kernel: its virtual routers, and its own addresses where these may change.
#[derive(Default)]
struct VirtualRoutes {
    /// The routing tables, for IPv4 and for IPv6, and the output that leads to the kernel.
    tables: [Option<String>; 2],
    /// The same with the output that leads to the networks of its own addresses.
    networks: [Option<String>; 2],
    known: Vec<KernelRoute>,
    /// [`REMOVED`] when these were set; `None` if they may not all be there.
    removed: Option<u64>,
}

/// A route in a lookup element.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KernelRoute {
    is_six: bool,
    element: String,
    route: String,
}

impl VirtualRoutes {
    fn configure(&mut self, args: &mut Args<'_>, spec: &Spec) {
        self.tables = [args.keyword_opt("VIRTUAL"), args.keyword_opt("VIRTUAL6")];
        self.networks = [args.keyword_opt("NETWORKS"), args.keyword_opt("NETWORKS6")];
        // The configuration has the routes of addresses that it says.
        let own = spec.settings.iter().filter(|(key, _)| key == "ADDR");
        let own = own.filter_map(|(_, text)| {
            let (address, len) = text.split_once('/')?;
            Some((address.parse().ok()?, len.parse().ok()?))
        });
        self.known = own.flat_map(|own| self.of_own(own)).collect();
    }

    /// Takes over the routes of an element before: its table may be in use still, or not.
    fn take(&mut self, old: &mut VirtualRoutes) {
        let has = |route: &KernelRoute| self.known.contains(route);
        let more: Vec<KernelRoute> = old.known.drain(..).filter(|route| !has(route)).collect();
        self.known.extend(more);
        self.removed = None;
    }

    fn are_wanted(&self) -> bool {
        self.tables.iter().chain(&self.networks).any(Option::is_some)
    }

    /// Has the tables agree with the kernel.
    #[cold]
    fn follow(&mut self, cx: &mut Cx<'_>, device: &dyn Device) {
        let own = device.addresses().unwrap_or_default();
        let mut now: Vec<KernelRoute> = own.iter().flat_map(|own| self.of_own(*own)).collect();
        now.extend(device.virtual_addresses().into_iter().filter_map(|address| self.local(address)));
        let before = std::mem::take(&mut self.known);
        // A twin that has lost IPv6 altogether, by a small MTU, loses none of its networks.
        let has_six = own.iter().any(|(address, _)| address.is_ipv6());
        let stays = |route: &&KernelRoute| route.is_six && !has_six && self.networks[1].is_some();
        now.extend(
            before.iter().filter(stays).filter(|route| !now.contains(route)).cloned().collect::<Vec<_>>(),
        );
        for gone in before.iter().filter(|route| !now.contains(route)) {
            // It may be gone already, with a table that was replaced.
            let _ = gone.write(cx, "remove");
            REMOVED.fetch_add(1, Ordering::Relaxed);
        }
        let removed = REMOVED.load(Ordering::Relaxed);
        let sets_all = self.removed != Some(removed);
        for new in now.iter().filter(|route| sets_all || !before.contains(route)) {
            if let Err(why) = new.write(cx, "set") {
                cx.print(&format!("{}: {}.set {}: {why}", cx.name(), new.element, new.route));
            }
        }
        (self.known, self.removed) = (now, Some(removed));
    }

    /// The route to the kernel for an address.
    fn local(&self, address: IpAddr) -> Option<KernelRoute> {
        let len = if address.is_ipv4() { 32 } else { 128 };
        KernelRoute::new(&self.tables, address, len)
    }

    /// The routes of an address of the kernel's own.
    fn of_own(&self, (address, len): (IpAddr, u8)) -> Vec<KernelRoute> {
        let Some(network) = KernelRoute::new(&self.networks, address, len) else { return Vec::new() };
        let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        if link_local {
            return Vec::new();
        }
        // All routers on a link share its lowest address (RFC 4291, 2.6.1), but on those between two (RFC 6164).
        let shared = match address {
            IpAddr::V6(address) => wire::Prefix6::new(address, len)
                .filter(|_| len < 127)
                .and_then(|net| self.local(net.addr().into())),
            IpAddr::V4(_) => None,
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let network = Some(network).filter(|_| len < most);
        [self.local(address), shared, network].into_iter().flatten().collect()
    }
}

impl KernelRoute {
    fn new(tables: &[Option<String>; 2], address: IpAddr, len: u8) -> Option<KernelRoute> {
        let is_six = address.is_ipv6();
        let (element, output) = tables[usize::from(is_six)].as_deref()?.split_once(' ')?;
        let prefix = match address {
            IpAddr::V4(address) => wire::Prefix4::new(address, len)?.to_string(),
            IpAddr::V6(address) => wire::Prefix6::new(address, len)?.to_string(),
        };
        Some(KernelRoute {
            is_six,
            element: element.to_owned(),
            route: format!("{prefix} {}", output.trim()),
        })
    }

    fn write(&self, cx: &mut Cx<'_>, verb: &str) -> Result<(), HandlerError> {
        cx.write_handler(&format!("{}.{verb}", self.element), &self.route)
    }
}

impl Duplex {
    /// Sets up both halves; reads the arguments that all such elements have.
    pub fn configure(&mut self, args: &mut Args<'_>, spec: Spec, force_ip: bool) {
        let burst = args.keyword("BURST", 0);
        let active = args.keyword("ACTIVE", true);
        self.virtual_routes.configure(args, &spec);
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

    /// See [`HotSwap::take_state`].
    pub fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut Duplex) -> bool {
        self.virtual_routes.take(&mut old.virtual_routes);
        let received = self.from.take_state(cx, &mut old.from);
        self.to.take_state(cx, &mut old.to) || received
    }

    /// See [`DeviceQueues::release`].
    pub fn release(&mut self, cx: &mut Cx<'_>, pool: &mut DevicePool) {
        self.to.release(cx, pool);
        self.from.release(cx, pool);
    }

    /// See [`DeviceQueues::acquire`].
    pub fn acquire(&mut self, cx: &mut Cx<'_>, pool: &mut DevicePool) {
        self.to.acquire(cx, pool);
        self.from.acquire(cx, pool);
    }

    /// See [`Rehearsal::rehearse`]: of a packet to the device, or where it sends none of one from there.
    pub fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        if self.sends { self.to.rehearse(cx, port, packet) } else { self.from.rehearse(cx, port, packet) }
    }

    /// See [`PacketHolder::held`].
    pub fn held(&self) -> usize {
        self.to.held()
    }

    /// See [`Provide::provide`].
    pub fn provide(&self) -> Option<Provided> {
        if self.receives { self.from.provide() } else { self.to.provide() }
    }
}

impl OverDevice for Duplex {
    fn over(&self) -> (Option<&Opened>, &Watch) {
        if self.receives { self.from.over() } else { self.to.over() }
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

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.receives {
            self.from.initialize(cx)?;
        }
        if self.sends {
            self.to.initialize(cx)?;
        }
        if self.virtual_routes.are_wanted() {
            cx.set_timer_after(VIRTUAL, 0);
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

        impl $name {
            /// Declares what elements of this type can do besides processing packets.
            const fn with_capabilities(class: element::Class) -> element::Class {
                class
                    .hot_swap::<Self>()
                    .device_queues::<Self>()
                    .handler_part::<Self>()
                    .packet_holder::<Self>()
                    .provide::<Self>()
                    .rehearsal::<Self>()
            }
        }

        impl element::Element for $name {
            fn configure(&mut self, $args: &mut element::args::Args<'_>) {
                let $this = &mut self.0;
                $configure
            }

            fn open(&mut self, cx: &mut element::OpenCx<'_>) -> Result<element::Tasks, String> {
                self.0.open(cx)
            }

            fn initialize(&mut self, cx: &mut element::InitCx<'_>) -> Result<(), String> {
                self.0.initialize(cx)
            }

            fn push(&mut self, cx: &mut element::Cx<'_>, port: usize, batch: packet::Batch) {
                self.0.push(cx, port, batch);
            }

            fn run_task(&mut self, cx: &mut element::Cx<'_>) -> bool {
                self.0.run_task(cx)
            }

            fn run_timer(&mut self, cx: &mut element::Cx<'_>, timer: u32) {
                self.0.run_timer(cx, timer);
            }

            fn finish(&mut self, cx: &mut element::Cx<'_>) {
                self.0.finish(cx);
            }
        }

        impl element::HandlerPart for $name {
            fn part(&mut self) -> &mut dyn std::any::Any {
                &mut self.0
            }
        }

        impl element::Provide for $name {
            fn provide(&self) -> Option<element::Provided> {
                self.0.provide()
            }
        }

        impl element::Rehearsal for $name {
            fn rehearse(
                &mut self,
                cx: &mut element::Cx<'_>,
                port: usize,
                packet: packet::Packet,
            ) -> element::Rehearsed {
                self.0.rehearse(cx, port, packet)
            }
        }

        impl element::PacketHolder for $name {
            fn held(&self) -> usize {
                self.0.held()
            }
        }

        impl element::DeviceQueues for $name {
            fn release(&mut self, cx: &mut element::Cx<'_>, pool: &mut element::swap::DevicePool) {
                self.0.release(cx, pool);
            }

            fn acquire(&mut self, cx: &mut element::Cx<'_>, pool: &mut element::swap::DevicePool) {
                self.0.acquire(cx, pool);
            }
        }

        impl element::HotSwap for $name {
            fn take_state(&mut self, cx: &mut element::Cx<'_>, old: &mut dyn element::Element) -> bool {
                element::swap::same::<$name>(old).is_some_and(|old| self.0.take_state(cx, &mut old.0))
            }
        }
    };
}

pub(super) use duplex;
