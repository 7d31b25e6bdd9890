// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MTU of the links that packets leave by, for elements that keep to it (argument `FOLLOW`): it may change while the router runs.
//!
//! It is read ten times a second, by a timer of the element's home instance, into what all elements over the device share. Where there are no
//! devices whose MTU can change (files, memory), there is no timer, and the element's own argument counts.

use std::sync::Arc;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::{Cx, InitCx};

use super::from_dump::Encap;

/// Time between looks.
const LOOK_EVERY: Nanos = SECOND / 10;

/// The devices whose lowest MTU counts.
#[derive(Clone, Default)]
pub(crate) struct LinkMtu {
    names: Vec<String>,
    devices: Vec<Arc<Encap>>,
}

impl LinkMtu {
    /// Reads `FOLLOW`, the names of elements with devices, separated by spaces.
    pub(crate) fn from_args(args: &mut Args<'_>) -> LinkMtu {
        let text: String = args.keyword("FOLLOW", String::new());
        LinkMtu { names: text.split_whitespace().map(str::to_owned).collect(), devices: Vec::new() }
    }

    /// Finds the devices, and looks again in due time as timer `timer` of the element.
    ///
    /// # Errors
    /// A name is not that of an element with a device.
    pub(crate) fn initialize(&mut self, cx: &mut InitCx<'_>, timer: u32) -> Result<(), String> {
        for name in &self.names {
            let encap = Encap::find(cx, "FOLLOW", name, "FromDevice, ToDevice and ToHost")?;
            encap.look_at_mtu();
            self.devices.extend(encap.mtu().map(|_| encap));
        }
        if cx.is_home() {
            self.set_timer(cx, timer);
        }
        Ok(())
    }

    fn set_timer(&self, cx: &mut Cx<'_>, timer: u32) {
        if !self.devices.is_empty() {
            cx.set_timer_after(timer, LOOK_EVERY);
        }
    }

    /// Looks, when the timer has come.
    pub(crate) fn look(&self, cx: &mut Cx<'_>, timer: u32) {
        self.devices.iter().for_each(|encap| encap.look_at_mtu());
        self.set_timer(cx, timer);
    }

    /// The lowest MTU, in bytes, or the element's own argument where there is nothing to follow.
    #[inline]
    pub(crate) fn or(&self, own: usize) -> usize {
        self.devices.iter().filter_map(|encap| encap.mtu()).min().unwrap_or(own)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::io::testing::Fake;
    use crate::testing::Rig;

    /// Runs an element over a device whose MTU changes to each of these, and reads a handler after each change.
    fn follow(element: &str, handler: &str, mtus: &[usize]) -> Vec<String> {
        let fake = Fake::new("eth0", &[&[]]);
        fake.set_mtu(1500);
        let text = format!("f :: FromDevice(eth0) -> Discard; Idle -> e :: {element} -> Discard;");
        let mut run = Rig::text(&text).provider(fake.clone()).ready();
        let mut read = vec![run.read(handler)];
        for mtu in mtus {
            fake.set_mtu(*mtu);
            run = run.run_for(Duration::from_secs(1));
            read.push(run.read(handler));
        }
        read
    }

    #[test]
    fn elements_keep_to_the_mtu_of_a_link_that_changes() {
        assert_eq!(follow("IPFragmenter(576, FOLLOW f)", "e.mtu", &[1400, 66000]), ["1500", "1400", "65535"]);
        assert_eq!(
            follow("IP6Fragmenter(1280, FOLLOW f)", "e.mtu", &[1400, 600, 9000]),
            ["1500", "1400", "1280", "9000"]
        );
        assert_eq!(follow("CheckMPLSMTU(576, FOLLOW f)", "e.mtu", &[1400]), ["1500", "1400"]);
        let error = "ICMPError(10.0.0.1, unreachable, needfrag, PMTU 576, FOLLOW f)";
        assert_eq!(follow(error, "e.pmtu", &[1400, 66000]), ["1500", "1400", "65535"]);
        assert_eq!(
            follow("ICMP6Error(2001:db8::1, toobig, FOLLOW f)", "e.mtu", &[1400, 600]),
            ["1500", "1400", "1280"]
        );
    }

    #[test]
    fn who_follows_nothing_that_changes_keeps_to_its_argument() {
        let text = "f :: FromDevice(eth0) -> Discard; Idle -> e :: IPFragmenter(576, FOLLOW f) -> Discard;";
        assert_eq!(Rig::text(text).provider(Fake::new("eth0", &[&[]])).ready().read("e.mtu"), "576");
        let wrong =
            Rig::text("Idle -> d :: Discard; Idle -> e :: IPFragmenter(576, FOLLOW d) -> Discard;").errors();
        assert!(wrong[0].contains("'d' is not an element with a device"), "{wrong:?}");
    }
}
