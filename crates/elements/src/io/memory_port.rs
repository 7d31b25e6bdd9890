// SPDX-License-Identifier: MIT OR Apache-2.0
//! # MemoryPort
//!
//! `MemoryPort(NAME [, keywords BURST, TIMESTAMP, ACTIVE])`
//!
//! One end of a wire inside this process: what is sent into one end comes out of every other end of the same name.
//!
//! **Ports:** up to 1 input, agnostic, for packets to the wire; up to 1 push output for packets from it.
//!
//! **Arguments**
//! * `NAME` of the wire: each mention of a bare name is another end. `NAME/END` names one end, which elements share.
//! * `BURST` packets at a time, default the router's burst.
//! * `TIMESTAMP` boolean, default true: packets carry the time they left the wire.
//! * `ACTIVE` boolean, default true.
//!
//! **Cores:** one worker owns the end; others that send wait for their turn.
//!
//! **Metadata set:** timestamp, packet type, link header.
//!
//! **Drops:** none of its own. A wire holds 1024 packets at each end; what an end did not take in time is in its
//! `kernel_drops`.
//!
//! **Handlers**
//! * those of FromDevice; `sent`, `sent_bytes` read: packets and bytes sent into the wire.
//!
//! ```click
//! a :: MemoryPort(cable) -> Discard;
//! InfiniteSource(LIMIT 5, STOP true) -> b :: MemoryPort(cable);
//! ```
//!
//! See also: FromDevice, ToDevice, KernelTap

use element::{Class, DeviceArg};
use packet::port::{Spec, method};

use super::duplex::{HANDLERS, duplex};

/// The descriptor.
pub const CLASS: Class = MemoryPort::with_capabilities(
    Class::new("MemoryPort", "0-1/0-1", || Box::new(MemoryPort::default()))
        .processing("a/h")
        .flow("x/y")
        .serial("one device, which one worker reads and writes")
        .device(DeviceArg::First("NAME"))
        .handlers(HANDLERS)
        .file(file!()),
);

duplex!(MemoryPort, |this, args| {
    let mut device: String = args.required("NAME");
    // Both directions are to be one end, though each opens it: else it would hear what it sends.
    if args.noutputs > 0 && args.ninputs > 0 && !device.contains('/') {
        device = format!("{device}/@{}", args.name);
    }
    let spec = Spec { device, method: Some(method::MEMORY.to_owned()), ..Spec::default() };
    this.configure(args, spec, false);
});

#[cfg(test)]
mod tests {
    use crate::io::testing::Fake;
    use crate::testing::Rig;

    #[test]
    fn is_an_end_of_a_wire() {
        let fake = Fake::new("cable/@e", &[&[b"from"]]);
        let text = "i :: TestIn -> e :: MemoryPort(cable) -> o :: TestOut;";
        let run = Rig::text(text).provider(fake.clone()).inputs(&[b"to"]).run();
        assert_eq!((run.bytes("o"), fake.sent(0)), (vec![b"from".to_vec()], vec![b"to".to_vec()]));
        assert_eq!(fake.spec().method.as_deref(), Some("MEMORY"));
    }

    #[test]
    fn needs_a_name() {
        assert_eq!(Rig::text("e :: MemoryPort;").errors(), ["e: missing argument NAME: a string"]);
    }
}
