// SPDX-License-Identifier: MIT OR Apache-2.0
//! The links behind an element's ports, for elements that learn who is there: what they learnt is wrong once the link was lost, even if it
//! came back at once with somebody else at its other end.
//!
//! They are looked at ten times a second, by a timer of the element's home instance. Where there are no devices whose links can be lost (in
//! files, in memory), there is no timer.

use std::sync::Arc;

use element::clock::{Nanos, SECOND};
use element::{Cx, InitCx};

use super::from_dump::Encap;

/// Time between looks.
const LOOK_EVERY: Nanos = SECOND / 10;

/// The devices behind each port, and how often their links had been lost at the last look.
#[derive(Default)]
pub(crate) struct Links(Vec<Vec<(Arc<Encap>, u64)>>);

/// What happened to the link behind a port since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The port.
    pub(crate) port: usize,
    /// Whether there is a link now.
    pub(crate) up: bool,
}

fn watched(found: Vec<Arc<Encap>>) -> Vec<(Arc<Encap>, u64)> {
    found.into_iter().filter_map(|encap| encap.breaks().map(|breaks| (encap, breaks))).collect()
}

impl Links {
    /// Those from which comes what enters this element by inputs 0 to `ports` - 1.
    pub(crate) fn behind_inputs(cx: &mut InitCx<'_>, ports: usize) -> Links {
        let element = cx.index();
        Links((0..ports).map(|port| watched(cx.sole_sources::<Encap>(element, port))).collect())
    }

    /// Those to which goes what leaves by an output, as one port.
    pub(crate) fn behind_output(cx: &mut InitCx<'_>, output: usize) -> Links {
        Links(vec![watched(cx.downstream::<Encap>(Some(output)))])
    }

    /// Looks again in due time, if there is anything to look at.
    pub(crate) fn set_timer(&self, cx: &mut Cx<'_>, timer: u32) {
        if self.0.iter().any(|devices| !devices.is_empty()) {
            cx.set_timer_after(timer, LOOK_EVERY);
        }
    }

    /// The ports whose link was lost since the last look, and those whose link is there again, of which `were_up` says what was known.
    pub(crate) fn look(&mut self, were_up: impl Fn(usize) -> bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for (port, devices) in self.0.iter_mut().enumerate().filter(|(_, devices)| !devices.is_empty()) {
            let (mut lost, mut up) = (false, false);
            for (encap, known) in devices {
                let breaks = encap.breaks().unwrap_or_default();
                lost |= std::mem::replace(known, breaks) != breaks;
                up |= encap.is_up();
            }
            if lost || up != were_up(port) {
                changes.push(Change { port, up });
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use packet::port::Link;

    use crate::io::testing::Fake;
    use crate::testing::{Rig, Run};

    const FRAME: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 0x88, 0xb5, 1, 2, 3];

    fn second(mut run: Run) -> Run {
        if run.write("f.active", "true").is_err() {
            // There is no device to receive from.
        }
        run.run_for(Duration::from_secs(1))
    }

    /// A neighbour that was heard of is forgotten when the link breaks, also where it is back at once; a permanent one stays.
    fn check_neighbours(resolver: &str, [heard, fixed]: [&str; 2]) {
        let fake = Fake::new("eth0", &[&[]]);
        fake.set_breaks(0);
        let text = format!("Idle -> e :: {resolver} -> Queue -> ToDevice(eth0); Idle -> [1]e;");
        let mut run = Rig::text(&text).provider(fake.clone()).ready();
        let fill = |run: &mut Run| {
            run.write("e.insert", &format!("{heard} 2:0:0:0:0:9")).unwrap();
            run.write("e.insert", &format!("{fixed} 2:0:0:0:0:8 permanent")).unwrap();
        };
        fill(&mut run);
        let mut run = second(run);
        assert_eq!(run.read("e.count"), "2");
        fake.set_breaks(1);
        let mut run = second(run);
        assert_eq!(run.read("e.count"), "1");
        assert!(run.read("e.table").starts_with(fixed), "{}", run.read("e.table"));
        // Down for long: what is heard of behind another link meanwhile is forgotten when this one is back.
        fake.set_link(Link::Down);
        fake.set_breaks(2);
        let mut run = second(run);
        fill(&mut run);
        let mut run = second(run);
        assert_eq!(run.read("e.count"), "2");
        fake.set_link(Link::Up);
        let mut run = second(run);
        assert_eq!(run.read("e.count"), "1");
    }

    #[test]
    fn neighbours_behind_a_lost_link_are_forgotten() {
        check_neighbours("ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1)", ["10.0.0.9", "10.0.0.8"]);
        check_neighbours("IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1)", ["2001:db8::9", "2001:db8::8"]);
    }

    #[test]
    fn a_bridge_port_without_link_is_down_and_empty() {
        let fake = Fake::new("eth0", &[&[FRAME]]);
        fake.set_breaks(0);
        let run = Rig::text(
            "b :: Bridge(PORTS 2); f :: FromDevice(eth0, PROMISC true) -> b -> Discard;
            Idle -> [1]b[1] -> Discard;",
        );
        let mut run = second(run.provider(fake.clone()).ready());
        assert_eq!(run.read("b.ports"), "0 forwarding up 1\n1 forwarding up 0\n");
        fake.set_breaks(1);
        let mut run = second(run);
        assert_eq!(run.read("b.ports"), "0 forwarding up 0\n1 forwarding up 0\n");
        fake.set_link(Link::Down);
        fake.set_breaks(2);
        let mut run = second(run);
        assert_eq!(run.read("b.ports"), "0 forwarding down 0\n1 forwarding up 0\n");
        // What the user took out of service stays there when the link is back.
        run.write("b.down", "0").unwrap();
        fake.set_link(Link::Up);
        let mut run = second(run);
        assert_eq!(run.read("b.ports"), "0 forwarding down 0\n1 forwarding up 0\n");
        run.write("b.up", "0").unwrap();
        assert_eq!(run.read("b.ports"), "0 forwarding up 0\n1 forwarding up 0\n");
    }

    #[test]
    fn a_switch_forgets_who_was_behind_a_lost_link() {
        let fake = Fake::new("eth0", &[&[FRAME]]);
        fake.set_breaks(0);
        let run = Rig::text(
            "f :: FromDevice(eth0, PROMISC true) -> s :: EtherSwitch -> Discard; Idle -> [1]s[1] -> Discard;",
        );
        let mut run = second(run.provider(fake.clone()).ready());
        assert_eq!(run.read("s.table"), "02-00-00-00-00-07 0\n");
        fake.set_breaks(1);
        let mut run = second(run);
        assert_eq!(run.read("s.table"), "");
    }
}
