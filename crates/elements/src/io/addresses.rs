// SPDX-License-Identifier: MIT OR Apache-2.0
//! The addresses that the kernel has on twins, for elements that speak or check by them (argument `ADDRESSES`): a DHCP client or a
//! user may change them while the router runs.
//!
//! Each instance looks a few times a second, by a timer. Where nobody else changes addresses (files, devices without a twin), there is no
//! timer, and the element's own argument counts.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::{Cx, InitCx};
use wire::addr::mask4;
use wire::{AddrMask4, Prefix4, Prefix6};

use super::from_dump::Encap;

/// Time between looks.
const LOOK_EVERY: Nanos = SECOND / 4;

/// The devices whose addresses count.
#[derive(Clone, Default)]
pub(crate) struct LinkAddresses {
    names: Vec<String>,
    devices: Vec<Arc<Encap>>,
    /// As they were seen last.
    known: Option<Owned>,
}

/// Addresses of all devices, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned(Vec<(IpAddr, u8)>);

impl LinkAddresses {
    /// Reads `ADDRESSES`, the names of elements with devices, separated by spaces. An element that is configured again goes on with its devices.
    pub(crate) fn configure(&mut self, args: &mut Args<'_>) {
        let text: String = args.keyword("ADDRESSES", String::new());
        let names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if names != self.names {
            *self = LinkAddresses { names, ..LinkAddresses::default() };
        }
        self.known = None;
    }

    /// Finds the devices, and looks at once and again in due time, as timer `timer` of the element.
    ///
    /// # Errors
    /// A name is not that of an element with a device.
    pub(crate) fn initialize(&mut self, cx: &mut InitCx<'_>, timer: u32) -> Result<(), String> {
        for name in &self.names {
            let encap = Encap::find(cx, "ADDRESSES", name, "FromHost and ToHost")?;
            self.devices.extend(encap.addresses().map(|_| encap));
        }
        if !self.devices.is_empty() {
            cx.set_timer_after(timer, 0);
        }
        Ok(())
    }

    /// Looks, when the timer has come; all addresses, if they have changed.
    pub(crate) fn look(&mut self, cx: &mut Cx<'_>, timer: u32) -> Option<&Owned> {
        cx.set_timer_after(timer, LOOK_EVERY);
        let now = self.devices.iter().filter_map(|encap| encap.addresses());
        let now = Owned(now.flatten().collect());
        let has_changed = self.known.as_ref() != Some(&now);
        self.known = Some(now);
        self.known.as_ref().filter(|_| has_changed)
    }
}

impl Owned {
    /// Whether the kernel has IPv6 there: there is a link-local address at least.
    pub(crate) fn has_six(&self) -> bool {
        self.0.iter().any(|(address, _)| address.is_ipv6())
    }

    /// IPv4 addresses with their networks.
    pub(crate) fn four(&self) -> impl Iterator<Item = AddrMask4> + '_ {
        self.0.iter().filter_map(|(address, len)| match address {
            IpAddr::V4(addr) => Some(AddrMask4 { addr: *addr, mask: mask4(*len).into() }),
            IpAddr::V6(_) => None,
        })
    }

    /// IPv4 networks.
    pub(crate) fn nets4(&self) -> impl Iterator<Item = Prefix4> + '_ {
        self.four().filter_map(|own| own.prefix())
    }

    /// IPv6 addresses, but for link-local ones.
    pub(crate) fn six(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.nets6().map(|(address, _)| address)
    }

    /// The same with their networks.
    pub(crate) fn nets6(&self) -> impl Iterator<Item = (Ipv6Addr, Prefix6)> + '_ {
        self.0.iter().filter_map(|(address, len)| match address {
            IpAddr::V6(address) if !address.is_unicast_link_local() => {
                Some((*address, Prefix6::new(*address, *len)?))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use element::Reason;
    use packet::{Packet, anno};

    use crate::io::testing::Fake;
    use crate::ip::samples::datagram;
    use crate::testing::{Rig, Run};

    const FIRST: &[&str] = &["10.0.0.1/24", "2001:db8::1/64", "fe80::1/64"];
    const NEXT: &[&str] = &["192.0.2.7/25", "10.9.0.1/16", "2001:db8:9::1/64", "fe80::1/64"];

    /// An element over a device with these addresses, once it has seen them.
    fn seen(element: &str, addresses: &[&str]) -> (Arc<Fake>, Run) {
        let fake = Fake::new("eth0", &[&[]]);
        fake.set_addresses(addresses);
        let text =
            format!("f :: FromDevice(eth0) -> Discard; i :: TestIn -> e :: {element} -> o0 :: TestOut;");
        let run = Rig::text(&text).provider(fake.clone()).ready().run_for(Duration::from_millis(10));
        (fake, run)
    }

    /// What a handler reads with the first addresses, with others, and with none.
    fn reads(element: &str, handler: &str) -> [String; 3] {
        let (fake, mut run) = seen(element, FIRST);
        let first = run.read(handler);
        fake.set_addresses(NEXT);
        let mut run = run.run_for(Duration::from_secs(1));
        let next = run.read(handler);
        fake.set_addresses(&[]);
        [first, next, run.run_for(Duration::from_secs(1)).read(handler)]
    }

    #[test]
    fn elements_speak_by_the_addresses_that_the_kernel_has() {
        let querier = "ARPQuerier(1.1.1.1, 2:0:0:0:0:1, ADDRESSES f)";
        assert_eq!(reads(querier, "e.ipaddr"), ["10.0.0.1", "192.0.2.7", "0.0.0.0"]);
        assert_eq!(reads(querier, "e.broadcast"), ["10.0.0.255", "192.0.2.127", "255.255.255.255"]);
        let error = "ICMPError(1.1.1.1, redirect, host, ONLINK 1.0.0.0/8, ADDRESSES f)";
        assert_eq!(reads(error, "e.src"), ["10.0.0.1", "192.0.2.7", "192.0.2.7"]);
        let error = "ICMP6Error(2001:db8:7::1, toobig, ADDRESSES f)";
        assert_eq!(reads(error, "e.src"), ["2001:db8::1", "2001:db8:9::1", "2001:db8:9::1"]);
        let of_link = "ICMP6Error(fe80::9, redirect, ONLINK fe80::/10, ADDRESSES f)";
        assert_eq!(reads(of_link, "e.src"), ["fe80::9"; 3]);
    }

    /// Packets behind an element that has seen these addresses, and what it dropped.
    fn behind(element: &str, addresses: &[&str], packet: Packet) -> (Vec<Vec<u8>>, Vec<(Reason, u64)>) {
        let (_, run) = seen(element, addresses);
        run.give("i", vec![packet]);
        let run = run.run_for(Duration::from_millis(10));
        (run.bytes("o0"), run.drops("e"))
    }

    #[test]
    fn packets_are_changed_and_checked_by_the_addresses_that_the_kernel_has() {
        let from = |source| datagram(9, source, [5, 6, 7, 8], &[], 4);
        let mut marked = from([1, 2, 3, 4]);
        marked.set_anno_u8(anno::FIX_IP_SRC, 1);
        assert_eq!(behind("FixIPSrc(9.9.9.9, ADDRESSES f)", NEXT, marked).0[0][12..16], [192, 0, 2, 7]);
        // The router records its address.
        let recorder = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[7, 7, 4, 0, 0, 0, 0, 0], 4);
        let recorded = behind("IPGWOptions(9.9.9.9, ADDRESSES f)", NEXT, recorder).0;
        assert_eq!(recorded[0][23..27], [192, 0, 2, 7]);
        // Who has the old address may send from it; nobody may send from a new one, or from the network's ends.
        let check = "CheckIPAddresses(INTERFACES 10.0.0.1/24, ADDRESSES f)";
        assert!(behind(check, NEXT, from([10, 0, 0, 1])).1.is_empty());
        for (source, why) in [
            ([10, 9, 0, 1], Reason::OwnSource),
            ([192, 0, 2, 7], Reason::OwnSource),
            ([192, 0, 2, 127], Reason::MartianSource),
        ] {
            assert_eq!(behind(check, NEXT, from(source)).1, [(why, 1)], "{source:?}");
        }
        let check = "CheckIPHeader(INTERFACES 10.0.0.1/24, BADSRC 7.7.7.7, ADDRESSES f)";
        assert!(behind(check, NEXT, from([10, 0, 0, 255])).1.is_empty());
        for source in [[192, 0, 2, 127], [7, 7, 7, 7]] {
            assert_eq!(behind(check, NEXT, from(source)).1, [(Reason::BadSource, 1)], "{source:?}");
        }
        let check = "CheckIP6Header(OWN 2001:db8::1, ADDRESSES f)";
        for (addresses, drops) in [(FIRST, 1), (NEXT, 0), (&["10.0.0.1/24"], 1)] {
            let bytes = crate::ip6::samples::bytes("2001:db8::1", "2001:db8:1::2", 59, 64, &[]);
            let (_, found) = behind(check, addresses, Packet::copy_of(&bytes).unwrap());
            assert_eq!(found.len(), drops, "{addresses:?}");
        }
    }

    #[test]
    fn without_a_kernel_the_arguments_count() {
        let text = "f :: FromDevice(eth0) -> Discard; Idle -> e :: ICMPError(1.1.1.1, unreachable, ADDRESSES f) -> Discard;";
        let run = Rig::text(text).provider(Fake::new("eth0", &[&[]])).ready();
        assert_eq!(run.run_for(Duration::from_secs(1)).read("e.src"), "1.1.1.1");
        let wrong =
            Rig::text("Idle -> d :: Discard; Idle -> e :: FixIPSrc(1.1.1.1, ADDRESSES d) -> Discard;")
                .errors();
        assert!(wrong[0].contains("'d' is not an element with a device"), "{wrong:?}");
    }
}
