// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Switch, StaticSwitch
//!
//! `Switch([OUTPUT])`
//!
//! Sends all packets out of one output, which a handler can change.
//!
//! **Ports:** 1 push input, any number of push outputs.
//!
//! **Arguments**
//! * `OUTPUT` the output in use, default 0; negative, or beyond the last: packets are dropped. StaticSwitch has no default.
//!
//! **Drops:** `inactive`, all packets while no output is chosen.
//!
//! **Handlers** (not of StaticSwitch)
//! * `switch` read/write: the output in use, -1 for none. `config` reads the same way.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> s :: Switch(1);
//! s[0] -> Discard; s[1] -> Discard;
//! ```
//!
//! See also: PullSwitch, RoundRobinSwitch, HashSwitch, PaintSwitch, Bypass

use element::Policy;
use element::args::Args;
use element::{Class, Cx, Element, Reason, handlers};
use packet::Batch;

use super::chosen::{Chosen, LLRPCS};

/// The descriptor.
pub const SWITCH: Class = Class::new("Switch", "1/-", || Box::new(Switch::default()))
    .processing("h/h")
    .handlers(handlers! { Switch:
        both "switch" => |switch| switch.output.text(), |switch, output: i32| switch.output.choose(output);
        both "config" => |switch| switch.output.text();
    })
    .llrpcs(LLRPCS)
    .pure()
    .reconfigurable()
    .file(file!());
/// The descriptor of the switch that cannot be changed.
pub const STATIC: Class =
    Class::new("StaticSwitch", "1/-", || Box::new(Switch { fixed: true, ..Switch::default() }))
        .processing("h/h")
        .pure()
        .file(file!());

#[derive(Default)]
struct Switch {
    output: Chosen,
    fixed: bool,
}

impl Element for Switch {
    fn configure(&mut self, args: &mut Args<'_>) {
        let output = if self.fixed { args.required("OUTPUT") } else { args.positional("OUTPUT", 0) };
        self.output = Chosen::new(output, args.noutputs);
        let beyond = output >= 0 && self.output.port().is_none();
        if beyond && !self.fixed && Policy::of_process().as_click {
            // Click refuses it.
            args.error(format!("output must be < {}", args.noutputs));
        } else if beyond {
            args.warning(format!("there is no output {output}, so packets are dropped"));
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        match self.output.port() {
            Some(output) => cx.push(output, batch),
            None => cx.drop_batch(Reason::Inactive, batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn its_configuration_can_be_written() {
        let mut run = Rig::new("Switch").outputs(2).inputs(&[b"a"]).run();
        assert_eq!(run.write("e.config", " 1 "), Ok(()));
        assert_eq!([run.read("e.config"), run.read("e.switch")], ["1", "1"]);
        let why = run.write("e.config", "x, 7").unwrap_err().to_string();
        assert!(
            why.contains("argument OUTPUT should be a whole number") && why.contains("too many arguments"),
            "{why}"
        );
        assert_eq!([run.read("e.config"), run.read("e.switch")], ["1", "1"]);
        run.give("i", vec![packet::Packet::copy_of(b"b").unwrap()]);
        let run = run.again();
        assert_eq!((run.bytes("o0").len(), run.bytes("o1").len()), (1, 1));
        assert!(Rig::new("Strip(1)").inputs(&[]).run().write("e.config", "2").is_err());
    }

    #[test]
    fn one_output_gets_all() {
        for (element, want) in
            [("Switch", [2, 0]), ("Switch(1)", [0, 2]), ("StaticSwitch(1)", [0, 2]), ("Switch(-1)", [0, 0])]
        {
            let run = Rig::new(element).outputs(2).inputs(&[b"a", b"b"]).run();
            assert_eq!([run.out("o0").len(), run.out("o1").len()], want, "{element}");
        }
    }

    #[test]
    fn the_handler_switches() {
        let mut run = Rig::new("Switch(7)").outputs(2).inputs(&[b"a"]).run();
        assert_eq!((run.read("e.switch").as_str(), run.drops("e")), ("-1", vec![(Reason::Inactive, 1)]));
        run.write("e.switch", "1").unwrap();
        assert_eq!(run.read("e.switch"), "1");
        assert!(run.write("e.switch", "x").is_err());
        assert!(run.write("e.switch", "2").is_ok());
        assert_eq!(run.read("e.switch"), "-1");
    }

    #[test]
    fn a_static_one_must_be_told() {
        assert_eq!(Rig::new("StaticSwitch").errors(), ["e: missing argument OUTPUT: a whole number"]);
    }
}
