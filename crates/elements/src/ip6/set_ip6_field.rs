// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetIP6DSCP, SetIP6ECN, SetIP6FlowLabel, SetIP6Hlim
//!
//! `SetIP6DSCP(DSCP)`, `SetIP6ECN(ECN)`, `SetIP6FlowLabel(FLOW)`, `SetIP6Hlim(HLIM)`
//!
//! Sets one field of the IPv6 header: the differentiated services code point, the congestion notification bits, the
//! flow label or the hop limit. No checksum covers them.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `DSCP` 0 to 63.
//! * `ECN` 0 to 3, or `no` (0), `ect1` or `ECT(1)` (1), `ect2` or `ECT(0)` (2), `ce` or `CE` (3).
//! * `FLOW` 0 to 1,048,575.
//! * `HLIM` 0 to 255.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** none; packets without IPv6 header pass unchanged.
//!
//! **Handlers**
//! * `dscp`, `ecn`, `flowlabel`, `hopLimit` read/write: the argument.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true)
//!     -> CheckIP6Header -> SetIP6DSCP(46) -> SetIP6ECN(no) -> SetIP6FlowLabel(7) -> SetIP6Hlim(64) -> Discard;
//! ```
//!
//! See also: CheckIP6Header, DecIP6HLIM, SetIPDSCP. RFC 8200 (3), RFC 2474, RFC 3168, RFC 6437

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, HandlerError, handlers};
use packet::Batch;

use super::header_mut;
use crate::tools::value;

/// The descriptor of the element that sets the code point.
pub const DSCP: Class = Class::new("SetIP6DSCP", "1/1", || SetField::boxed(Field::Dscp))
    .handlers(handlers! { SetField:
        both "dscp" => .value |field, text: &str| field.set("dscp", text)?;
    })
    .pure()
    .forwards()
    .file(file!());
/// The descriptor of the element that sets the congestion bits.
pub const ECN: Class = Class::new("SetIP6ECN", "1/1", || SetField::boxed(Field::Ecn))
    .handlers(handlers! { SetField:
        both "ecn" => .value |field, text: &str| field.set("ecn", text)?;
    })
    .pure()
    .forwards()
    .file(file!());
/// The descriptor of the element that sets the flow label.
pub const FLOW_LABEL: Class = Class::new("SetIP6FlowLabel", "1/1", || SetField::boxed(Field::FlowLabel))
    .handlers(handlers! { SetField:
        both "flowlabel" => .value |field, text: &str| field.set("flowlabel", text)?;
    })
    .pure()
    .forwards()
    .file(file!());
/// The descriptor of the element that sets the hop limit.
pub const HLIM: Class = Class::new("SetIP6Hlim", "1/1", || SetField::boxed(Field::HopLimit))
    .handlers(handlers! { SetField:
        both "hopLimit" => .value |field, text: &str| field.set("hopLimit", text)?;
    })
    .pure()
    .forwards()
    .file(file!());

/// The fields, by where they lie in the header's first eight bytes.
#[derive(Clone, Copy)]
enum Field {
    Dscp,
    Ecn,
    FlowLabel,
    HopLimit,
}

impl Field {
    /// Lowest bit and width, of the first eight bytes as one number.
    const fn place(self) -> (u32, u32) {
        match self {
            Field::Dscp => (54, 6),
            Field::Ecn => (52, 2),
            Field::FlowLabel => (32, 20),
            Field::HopLimit => (0, 8),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Field::Dscp => "DSCP",
            Field::Ecn => "ECN",
            Field::FlowLabel => "FLOW",
            Field::HopLimit => "HLIM",
        }
    }
}

/// A field's value: a number, or a name of the congestion bits.
#[derive(Default)]
struct Value(u64);

impl FromArg for Value {
    const EXPECTED: &'static str = "a number that fits the field";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        u64::from_arg(text, names).map(Value)
    }
}

#[derive(Default)]
struct Ecn(u64);

impl FromArg for Ecn {
    const EXPECTED: &'static str = "no, ect1, ect2, ce or 0 to 3";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        match text {
            "no" => Ok(Ecn(0)),
            "ect1" | "ECT(1)" => Ok(Ecn(1)),
            "ect2" | "ECT(0)" => Ok(Ecn(2)),
            "ce" | "CE" => Ok(Ecn(3)),
            _ => u64::from_arg(text, names).ok().filter(|n| *n < 4).map(Ecn).ok_or_else(String::new),
        }
    }
}

struct SetField {
    field: Field,
    value: u64,
}

impl SetField {
    fn boxed(field: Field) -> Box<dyn Element> {
        Box::new(SetField { field, value: 0 })
    }

    fn fits(&self, value: u64) -> bool {
        value >> self.field.place().1 == 0
    }
}

impl SetField {
    /// Sets the field to what handler `name` is given.
    fn set(&mut self, name: &str, text: &str) -> Result<(), HandlerError> {
        let new = match self.field {
            Field::Ecn => value::<Ecn>(name, text)?.0,
            _ => value::<Value>(name, text)?.0,
        };
        if !self.fits(new) {
            return Err(HandlerError::bad_value(name, text, Value::EXPECTED));
        }
        self.value = new;
        Ok(())
    }
}

impl Element for SetField {
    fn configure(&mut self, args: &mut Args<'_>) {
        let value = match self.field {
            Field::Ecn => args.required::<Ecn>("ECN").0,
            field => args.required::<Value>(field.name()).0,
        };
        if self.fits(value) {
            self.value = value;
        } else {
            let max = (1u64 << self.field.place().1) - 1;
            args.error(format!("{} must lie between 0 and {max}, not {value}", self.field.name()));
        }
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (lowest, width) = self.field.place();
        let (keep, set) = (!(((1u64 << width) - 1) << lowest), self.value << lowest);
        for packet in batch.iter_mut() {
            if let Some(first) = header_mut(packet).and_then(|h| h.first_chunk_mut::<8>()) {
                *first = (u64::from_be_bytes(*first) & keep | set).to_be_bytes();
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use wire::ipv6::{Repr, View};

    use super::super::samples::packet;
    use crate::testing::Rig;

    /// Sets a field of a header that is all ones, and one of zeros.
    #[test]
    fn sets_only_its_field() {
        let check = |config: &str, want: &str| {
            for burst in [1, 32] {
                let mut ones = packet("::1", "::2", 59, 255, b"");
                ones.data_mut()[1..4].fill(0xff);
                ones.data_mut()[0] = 0x6f;
                let zeros = packet("::1", "::2", 59, 0, b"");
                let short = packet::Packet::copy_of(b"x").unwrap();
                let run = Rig::new(config).burst(burst).packets(vec![ones, zeros, short]).run();
                let out = run.out("o0");
                let shown = |p: &packet::Packet| {
                    let r = Repr::parse(&View::new_checked(p.data()).unwrap());
                    format!("{:#x} {:#x} {}", r.traffic_class, r.flow_label, r.hop_limit)
                };
                assert_eq!(format!("{}, {}", shown(&out[0]), shown(&out[1])), want, "{config}");
            }
        };
        check("SetIP6DSCP(46)", "0xbb 0xfffff 255, 0xb8 0x0 0");
        check("SetIP6ECN(ECT(1))", "0xfd 0xfffff 255, 0x1 0x0 0");
        check("SetIP6ECN(2)", "0xfe 0xfffff 255, 0x2 0x0 0");
        check("SetIP6FlowLabel(0x12345)", "0xff 0x12345 255, 0x0 0x12345 0");
        check("SetIP6Hlim(64)", "0xff 0xfffff 64, 0x0 0x0 64");
    }

    #[test]
    fn arguments_and_handlers() {
        let errors = |config: &str| Rig::new(config).errors();
        assert_eq!(errors("SetIP6DSCP(64)"), ["e: DSCP must lie between 0 and 63, not 64"]);
        assert_eq!(
            errors("SetIP6FlowLabel(0x100000)"),
            ["e: FLOW must lie between 0 and 1048575, not 1048576"]
        );
        assert_eq!(
            errors("SetIP6ECN(maybe)"),
            ["e: argument ECN should be no, ect1, ect2, ce or 0 to 3, not 'maybe'"]
        );
        assert_eq!(errors("SetIP6Hlim").len(), 1);
        let mut run = Rig::new("SetIP6Hlim(64)").run();
        run.write("e.hopLimit", "3").unwrap();
        assert_eq!((run.read("e.hopLimit").as_str(), run.write("e.hopLimit", "256").is_err()), ("3", true));
    }
}
