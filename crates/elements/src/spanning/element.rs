// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element that RSTP and EtherSpanTree are: one tree, run for the bridge or switch that it controls.
//!
//! Each of them says ([`Controlled`]) how its arguments are read, how the ports are found that it lets forward, and how they are informed. Messages,
//! seconds, handlers, hot swaps and the devices' links are the same for both, and here.
//!
//! Links: behind most ports there is a device, and the element that receives from it knows whether its link is up. It is
//! found when the router starts, and looked at ten times a second, as often as that element looks itself. Where there is none
//! (a port of a virtual network, say) the link is up until the `link` handler says otherwise.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::args::Args;
use element::clock::SECOND;
use element::{Class, Cx, Element, Handler, HandlerError, HotSwap, InitCx, OpenCx, Tasks, handlers, swap};
use packet::{Batch, Packet};

use super::rstp::{BridgeConfig, PortConfig};
use super::tree::{self, Act, Tree};
use crate::io::from_dump::Encap;

/// Time between looks at the links of devices.
const LOOK_EVERY: u64 = SECOND / 10;

/// The timers: seconds of the protocol, and looks at links.
const SECONDS: u32 = 0;
const LINKS: u32 = 1;

/// Who has the ports that a tree lets forward or not.
pub(super) trait Controlled: Default + Send + 'static {
    /// Reads the arguments.
    fn configure(&mut self, args: &mut Args<'_>) -> BridgeConfig;

    /// Finds the ports and lets none of them forward. Says how many there are, and by the inputs of which element (its number)
    /// their frames come in.
    ///
    /// # Errors
    /// What is not there.
    fn attach(&mut self, cx: &mut InitCx<'_>) -> Result<(usize, element::ElementId), String>;

    /// What was decided for a port.
    fn port_config(&self, port: usize) -> PortConfig;

    /// The port by which a message came in that stands at an input.
    fn port_of(&self, input: usize, packet: &Packet) -> usize;

    /// Does something for a port.
    fn act(&mut self, cx: &mut Cx<'_>, port: usize, act: Act);

    /// Takes over what is not the tree's from the element in whose place this one comes.
    fn take(&mut self, _: &mut Self) {}
}

/// The links of the devices behind the ports.
#[derive(Default)]
struct Links {
    /// Of each port, what its devices tell; one that several receive for is up while any of them says so.
    of: Vec<Vec<Arc<Encap>>>,
    /// Of each port, what was last reported to the tree.
    told: Vec<bool>,
}

impl Links {
    /// Finds the devices from which comes what enters an element by inputs 0 to `ports` - 1.
    fn find(cx: &mut InitCx<'_>, element: element::ElementId, ports: usize) -> Links {
        let of: Vec<_> = (0..ports).map(|port| cx.sole_sources::<Encap>(element, port)).collect();
        Links { told: vec![true; of.len()], of }
    }

    fn up(&self, port: usize) -> Option<bool> {
        let devices = self.of.get(port).filter(|devices| !devices.is_empty())?;
        Some(devices.iter().any(|device| device.up.load(Ordering::Relaxed)))
    }

    /// Reports links that changed to the tree; returns whether there are any that may.
    fn follow(&mut self, tree: &mut Tree) -> bool {
        let mut any = false;
        for port in 0..self.told.len() {
            let Some(up) = self.up(port) else { continue };
            any = true;
            if std::mem::replace(&mut self.told[port], up) != up {
                tree.set_link(port, up);
            }
        }
        any
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct SpanningTree<C> {
    controlled: C,
    tree: Option<Tree>,
    links: Links,
}

impl<C: Controlled> SpanningTree<C> {
    /// Declares what elements of this type can do besides processing packets.
    pub(super) const fn with_capabilities(class: Class) -> Class {
        class.hot_swap::<Self>()
    }

    /// The handlers of every element that runs the protocol.
    pub(super) const HANDLERS: &[Handler] = handlers! { SpanningTree<C>:
        read "ports" => |element| element.tree()?.lines(tree::show_port);
        read "roles" => |element| element.tree()?.lines(|port| port.role().name().to_owned());
        read "states" => |element| element.tree()?.lines(|port| port.state().name().to_owned());
        read "root" => |element| element.tree()?.bridge.root().root;
        read "root_cost" => |element| element.tree()?.bridge.root().cost;
        read "root_port" => |element| element.tree()?.bridge.root_port().map_or(-1, |port| i32::from(port) - 1);
        read "bridge_id" => |element| element.tree()?.bridge.id();
        both "priority" => |element| element.tree()?.bridge.config().priority,
            |element, cx, text: &str| element.change(cx, "priority", text)?;
        read "times" => |element| element.tree()?.show_times();
        read "topology_changes" => |element| element.tree()?.bridge.counts().topology_changes;
        read "root_changes" => |element| element.tree()?.bridge.counts().root_changes;
        read "since_change" => |element| element.tree()?.bridge.seconds_since_change();
        read "bpdus" => |element| element.tree()?.show_counts();
        read "links" => |element| element.show_links()?;
        write "link" => |element, cx, text: &str| element.change(cx, "link", text)?;
        write "enable" => |element, cx, text: &str| element.change(cx, "enable", text)?;
        write "cost" => |element, cx, text: &str| element.change(cx, "cost", text)?;
        write "check" => |element, cx, text: &str| element.change(cx, "check", text)?;
    };

    /// The tree, for handlers.
    ///
    /// # Errors
    /// The element is not configured.
    pub(super) fn tree(&self) -> Result<&Tree, HandlerError> {
        self.tree.as_ref().ok_or_else(|| HandlerError::failed("the element is not configured"))
    }

    fn show_links(&self) -> Result<String, HandlerError> {
        let word = |up| if up { "up" } else { "down" };
        let device = |port| self.links.up(port).map_or("none", word);
        let line = |(at, up)| format!("{at} {} device {}\n", word(up), device(at));
        Ok(self.tree()?.links().enumerate().map(line).collect())
    }

    /// Changes the tree by one of the handlers that are written.
    fn change(&mut self, cx: &mut Cx<'_>, name: &str, text: &str) -> Result<(), HandlerError> {
        if let Some(tree) = &mut self.tree {
            tree.write(name, text)?;
        }
        self.carry_out(cx);
        Ok(())
    }

    /// Does what the protocol wants done.
    fn carry_out(&mut self, cx: &mut Cx<'_>) {
        let Some(tree) = &mut self.tree else { return };
        tree.carry_out(cx, |cx, port, act| self.controlled.act(cx, port, act));
    }

    /// Follows the links of devices, and looks again in due time where there are any.
    fn follow(&mut self, cx: &mut Cx<'_>) {
        let Some(tree) = &mut self.tree else { return };
        if self.links.follow(tree) {
            let next = cx.now() + LOOK_EVERY;
            cx.set_timer(LINKS, next);
        }
    }
}

impl<C: Controlled> Element for SpanningTree<C> {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.tree = Some(Tree::new(self.controlled.configure(args)));
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let (ports, entrance) = self.controlled.attach(cx)?;
        self.links = Links::find(cx, entrance, ports);
        if let Some(tree) = &mut self.tree {
            tree.add_ports(ports, |port| self.controlled.port_config(port));
            tree.start(cx, SECONDS);
        }
        self.follow(cx);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, mut batch: Batch) {
        for packet in batch.drain(..) {
            if let Some(tree) = &mut self.tree {
                tree.receive(cx, self.controlled.port_of(input, &packet), packet);
            }
        }
        self.carry_out(cx);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        match (timer, &mut self.tree) {
            (SECONDS, Some(tree)) => tree.second(cx, SECONDS),
            _ => self.follow(cx),
        }
        self.carry_out(cx);
    }
}

impl<C: Controlled> HotSwap for SpanningTree<C> {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Self>(old) else { return false };
        let (Some(tree), Some(before)) = (&mut self.tree, &mut old.tree) else { return false };
        let taken = tree.take(before);
        if taken {
            tree.go_on(cx, SECONDS);
            self.links.told.clone_from(&old.links.told);
            self.controlled.take(&mut old.controlled);
            self.follow(cx);
            self.carry_out(cx);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use packet::port::Link;

    use crate::io::testing::Fake;
    use crate::testing::{Rig, Run};

    fn check(text: &str, tree: &str) {
        let fake = Fake::new("eth0", &[&[]]);
        let seconds = |mut run: Run, seconds| {
            // The device has nothing more to receive, so nobody looks at it unasked.
            run.write("f.active", "true").unwrap();
            run.run_for(Duration::from_secs(seconds))
        };
        let mut run = seconds(Rig::text(text).provider(fake.clone()).ready(), 40);
        let read = |run: &mut Run, name: &str| run.read(&format!("{tree}.{name}"));
        assert_eq!(read(&mut run, "links"), "0 up device up\n1 up device none\n");
        assert_eq!(read(&mut run, "states"), "0 forwarding\n1 forwarding\n");
        fake.set_link(Link::Down);
        let mut run = seconds(run, 1);
        assert_eq!(read(&mut run, "links"), "0 down device down\n1 up device none\n");
        assert_eq!(read(&mut run, "roles"), "0 disabled\n1 designated\n");
        assert_eq!(read(&mut run, "states"), "0 discarding\n1 forwarding\n");
        // A swap does not take a link that is down for one that went down.
        run.swap(text).unwrap();
        run.write(&format!("{tree}.link"), "1 false").unwrap();
        let mut run = seconds(run, 1);
        assert_eq!(read(&mut run, "links"), "0 down device down\n1 down device none\n");
        fake.set_link(Link::Up);
        let mut run = seconds(run, 40);
        assert_eq!(read(&mut run, "links"), "0 up device up\n1 down device none\n");
        assert_eq!(read(&mut run, "states"), "0 forwarding\n1 discarding\n");
    }

    #[test]
    fn links_of_devices_are_followed() {
        check(
            "b :: Bridge(PORTS 2); b[2] -> r :: RSTP(b, 02:00:00:00:00:01) -> [2]b;
            f :: FromDevice(eth0, PROMISC true) -> Paint(1) -> b -> Discard; Idle -> [1]b[1] -> Discard;",
            "r",
        );
        check(
            "c :: Classifier(0/0180c2000000, -); f :: FromDevice(eth0, PROMISC true) -> c;
            c[0] -> t :: EtherSpanTree(02:00:00:00:00:01, in, out, s) -> Discard; Idle -> [1]t[1] -> Discard;
            c[1] -> in :: Suppressor -> s :: EtherSwitch -> out :: Suppressor -> Discard;
            Idle -> [1]in[1] -> [1]s[1] -> [1]out[1] -> Discard;",
            "t",
        );
    }

    #[test]
    fn what_comes_from_several_places_is_no_ports_device() {
        // By the other switch come frames of more than one device, and it goes on when one of them fails.
        let fake = Fake::new("eth0", &[&[]]);
        let mut run = Rig::text(
            "b :: Bridge(PORTS 2); b[2] -> r :: RSTP(b, 02:00:00:00:00:01) -> [2]b; s :: EtherSwitch;
            FromDevice(eth0, PROMISC true) -> s -> b -> Discard; Idle -> [1]s[1] -> [1]b[1] -> Discard;",
        )
        .provider(fake)
        .ready();
        assert_eq!(run.read("r.links"), "0 up device none\n1 up device none\n");
    }
}
