// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FromPlane
//!
//! `FromPlane(ENDPOINT [, keywords BURST, TIMESTAMP, ACTIVE])`
//!
//! Receives packets that another plane of the deployment hands over: a router by ToPlane, or a program that uses the C or Python interface.
//!
//! **Ports:** 1 push output.
//!
//! **Arguments**
//! * `ENDPOINT` the channel: a table `[channels.ENDPOINT]` of the deployment's file. `junctor run --icc SOCKET` has channels without a deployment.
//! * `BURST` packets at a time, default the router's burst.
//! * `TIMESTAMP` boolean, default true: packets that come without a time get the present one.
//! * `ACTIVE` boolean, default true.
//!
//! Each packet is copied once, into a frame of this router, so nothing that the other plane writes later can change it. Its headers are not to be
//! trusted: check them as those of a packet from a device.
//!
//! **Cores:** a channel has one receiver, so there is one task. Its worker polls the channel, and sleeps when nothing comes for a while.
//!
//! **Metadata set:** timestamp, packet type and paint as the sender had them; link header.
//!
//! **Drops:** none of its own. Packets that the other plane described wrongly are in `lost`. Without packet memory, packets stay in the channel.
//!
//! **Handlers**
//! * `count`, `byte_count` read: packets and bytes received. `reset_counts` write: sets the counts to zero.
//! * `lost` read: packets that could not be had, because the sender described them wrongly or its memory has gone.
//! * `no_memory` read: how often packets had to wait for packet memory.
//! * `active` read/write.
//!
//! ```click
//! FromPlane(spill) -> CheckIPHeader -> Discard;
//! ```
//!
//! See also: ToPlane, FromDevice

use element::args::Args;
use element::{Class, DeviceArg, handlers};
use packet::port::{Spec, method};

use super::from_device::{Config, FromDevice};

/// The descriptor.
pub const CLASS: Class = FromDevice::with_capabilities(
    Class::new("FromPlane", "0/1", || Box::new(FromDevice::reading(read)))
        .processing("h/h")
        .device(DeviceArg::First("ENDPOINT"))
        .handlers(handlers! { FromDevice:
            sum "count" => .count;
            sum "byte_count" => .bytes;
            sum "lost" => |from| from.missed();
            sum "no_memory" => |from| from.no_memory();
            write "reset_counts" => |from| from.reset_counts();
            both "active" => .config.active |from, cx, active: bool| from.set_active(cx, active);
        })
        .file(file!()),
);

fn read(args: &mut Args<'_>) -> Config {
    let device: String = args.required("ENDPOINT");
    let method = Some(method::PLANE.to_owned());
    Config {
        // The sender has said how packets were addressed.
        spec: Spec { device, method, promiscuous: true, ..Spec::default() },
        expression: String::new(),
        queue: None,
        burst: args.keyword("BURST", 0),
        timestamp: args.keyword("TIMESTAMP", true),
        force_ip: false,
        active: args.keyword("ACTIVE", true),
        stop: false,
    }
}

#[cfg(test)]
mod tests {
    use crate::io::testing::Fake;
    use crate::testing::Rig;

    #[test]
    fn receives_what_the_channel_has() {
        let fake = Fake::new("spill", &[&[b"one", b"two"]]);
        fake.set_told(true);
        let mut run = Rig::text("e :: FromPlane(spill) -> o :: TestOut;").provider(fake.clone()).run();
        assert_eq!(run.bytes("o"), [b"one", b"two"]);
        assert_eq!((run.read("e.count"), run.read("e.byte_count")), ("2".into(), "6".into()));
        // The device's own losses.
        assert_eq!(run.read("e.lost"), "5");
        let spec = fake.spec();
        assert_eq!((spec.method.as_deref(), spec.promiscuous), (Some("PLANE"), true));
    }

    #[test]
    fn needs_an_endpoint() {
        let errors = Rig::text("e :: FromPlane -> Discard;").errors();
        assert_eq!(errors, ["e: missing argument ENDPOINT: a string"]);
    }
}
