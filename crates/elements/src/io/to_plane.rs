// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ToPlane
//!
//! `ToPlane(ENDPOINT [, keywords BURST, ACTIVE])`
//!
//! Hands packets to another plane of the deployment: a router that receives by FromPlane, or a program that uses the C or Python interface.
//!
//! **Ports:** 1 input, agnostic: with a pull input it fetches packets when the channel has room.
//!
//! **Arguments**
//! * `ENDPOINT` the channel: a table `[channels.ENDPOINT]` of the deployment's file. `junctor run --icc SOCKET` has channels without a deployment.
//! * `BURST` packets fetched at a time, default the router's burst.
//! * `ACTIVE` boolean, default true.
//!
//! It never waits for the other plane. If that dies, packets that wait in the channel are for its successor, and others are dropped until that has come.
//!
//! **Cores:** a channel has one sender. With a push input several workers take turns.
//!
//! **Metadata kept:** timestamp, packet type, paint. Header positions and other annotations do not leave the router.
//!
//! **Drops:** `plane-full` when a packet is pushed and the channel has no room (a Queue before waits instead); `plane-absent` when nobody receives;
//! `too-long` for packets longer than the channel's `longest`.
//!
//! **Handlers**
//! * `count`, `byte_count` read: packets and bytes sent. `reset_counts` write: sets them to zero.
//! * `active` read/write.
//! * `link` read: `up` while somebody receives, as far as was seen when sending. `link_changes` read: how often that changed.
//!
//! ```click
//! InfiniteSource(LIMIT 5) -> ToPlane(spill);
//! ```
//!
//! See also: FromPlane, Queue, Punt

use element::args::Args;
use element::{Class, DeviceArg, Handler};
use packet::port::{Spec, method};

use super::to_device::{self, Config, ToDevice};

const HANDLERS: &[Handler] = {
    let [count, byte_count, reset_counts, active, .., link, link_changes, _] = *to_device::HANDLERS;
    &[count, byte_count, reset_counts, active, link, link_changes]
};

/// The descriptor.
pub const CLASS: Class = ToDevice::with_capabilities(
    Class::new("ToPlane", "1/0", || Box::new(ToDevice::reading(read)))
        .processing("a/h")
        .device(DeviceArg::First("ENDPOINT"))
        .handlers(HANDLERS)
        .file(file!()),
);

fn read(args: &mut Args<'_>) -> Config {
    let device: String = args.required("ENDPOINT");
    let sends = (method::PLANE_SENDS.to_owned(), "true".to_owned());
    let method = Some(method::PLANE.to_owned());
    Config {
        spec: Spec { device, method, settings: vec![sends], ..Spec::default() },
        queue: None,
        burst: args.keyword("BURST", 0),
        pad: false,
        active: args.keyword("ACTIVE", true),
        pulls: args.input_is_pull(0),
        half: true,
        plane: true,
    }
}

#[cfg(test)]
mod tests {
    use element::Reason;
    use packet::port::Link;

    use crate::io::testing::Fake;
    use crate::testing::Rig;

    #[test]
    fn sends_and_names_what_it_drops() {
        for (room, link, drops) in [
            (9, Link::Up, None),
            (0, Link::Up, Some(Reason::PlaneFull)),
            (0, Link::Down, Some(Reason::PlaneAbsent)),
        ] {
            let fake = Fake::new("spill", &[&[]]);
            fake.set_room(room);
            fake.set_link(link);
            let mut run = Rig::text("i :: TestIn -> e :: ToPlane(spill);")
                .provider(fake.clone())
                .inputs(&[b"one", b"two"])
                .run();
            match drops {
                None => assert_eq!(fake.sent(0), [b"one".to_vec(), b"two".to_vec()]),
                Some(reason) => assert_eq!(run.drops("e"), [(reason, 2)]),
            }
            assert_eq!(run.read("e.count"), if room > 0 { "2" } else { "0" });
            assert_eq!(fake.spec().method.as_deref(), Some("PLANE"));
        }
    }

    #[test]
    fn needs_an_endpoint() {
        let errors = Rig::text("Idle -> e :: ToPlane;").errors();
        assert_eq!(errors, ["e: missing argument ENDPOINT: a string"]);
    }
}
